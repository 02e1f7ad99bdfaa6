"""Learn when to stop asking, by dynamic programming over the vote patterns of exploration rounds.

Arms are asked along a fixed order, a prefix at a time. After each stage there are two choices:

- Stop with the leader. The patterns give the rate at which the leader is not the label of the full vote.
- Ask a longer prefix. That costs money and leads to patterns whose frequencies are known as well.

At a price of λ per error this is a finite decision problem, which is solved backwards. λ is then the smallest
one at which the errors of the whole rule fit the error budget.

Certain labels are left out of the estimates: a leader whose margin exceeds the weight of all remaining arms
is right whatever they vote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from camvo.numerics.proportion import upper_bound
from camvo.numerics.tolerances import TIE
from camvo.stages.stopping_rule import StoppingRule
from camvo.state.vote_patterns import UNASKED, Signature
from camvo.typing import Array

CONFIDENCE = 0.95
"""The confidence level of the bound on a rule's errors. An agreement of 0.99 takes 299 rounds without an
error."""

_PRICES = 1.5 * 1.3 ** np.arange(24)
"""The values of λ to try, ascending, in prices of asking all models."""

_Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Solution:
    """The optimal policy at one λ.

    Attributes:
        first: the position of the last arm of the first stage.
        choices: stage → position → for each cell, how many arms to have asked after the next stage.
        error: the expected share of wrong labels.
        price: λ, or ``None`` if the policy makes no errors.
    """

    first: int
    choices: Sequence[Sequence[_Indices]]
    error: float
    price: float | None


class StoppingProblem:
    """The decision problem of when to stop along one order, given vote patterns and weights.

    Each distinct pattern is a row. The rows that agree on the votes of the first arms form a *cell* of that
    prefix. A prefix is indexed by the position of its last arm.

    Args:
        patterns: the groups of the K arms, in the order of asking → the number of exploration rounds with
            this pattern.
        weights: ω of each arm, shape (K,).
        costs: each arm's price as a share of the price of all arms, shape (K,).

    Attributes:
        rounds: the number of exploration rounds.
    """

    def __init__(self, patterns: Mapping[Signature, int], weights: Array, costs: Array) -> None:
        self._paid = np.concatenate(([0.0], np.cumsum(costs)))
        self._arms = len(weights)
        self._rows = list(patterns)
        self._counts = np.array(list(patterns.values()), dtype=np.float64)
        self.rounds = float(self._counts.sum())
        if patterns:
            self._build_cells(np.array(self._rows, dtype=np.int64), weights)

    def _build_cells(self, groups: _Indices, weights: Array) -> None:
        """Assign every row to a cell of each prefix, and estimate each cell's risk of stopping.

        The last cell of a prefix holds the rows that ended before it; stopping there risks nothing. The risk
        of a cell is smoothed by one pseudo-round with the mean risk of the uncertain cells of its prefix.
        ``_unseen`` is the risk added where the last votes may form a pattern that was never seen.
        """
        n = len(groups)
        support = np.zeros((n, self._arms + 1))
        leaders: list[_Indices] = []
        untied: list[NDArray[np.bool_]] = []
        remaining_weight = float(weights.sum())
        certain: list[NDArray[np.bool_]] = []
        for position in range(self._arms):
            voted = groups[:, position] >= 0
            support[voted, groups[voted, position]] += weights[position]
            remaining_weight -= weights[position]
            second, first = np.partition(support, -2, axis=1)[:, -2:].T
            leaders.append(support.argmax(axis=1))
            untied.append(first - second > TIE)
            certain.append(first - second > remaining_weight + 2.0 * TIE)
        self._cell: list[_Indices] = []
        self._size: list[Array] = []
        self._risk: list[Array] = []
        self._unseen: list[Array] = []
        self._certain: list[NDArray[np.bool_]] = []
        for position in range(self._arms):
            asked = groups[:, position] != UNASKED
            _, cell_of_asked = np.unique(groups[asked, : position + 1], axis=0, return_inverse=True)
            cells = int(cell_of_asked.max(initial=-1)) + 1
            cell = np.full(n, cells, dtype=np.int64)
            cell[asked] = cell_of_asked.ravel()
            wrong = ~untied[position] | (leaders[position] != leaders[-1])
            safe = np.ones(cells + 1, dtype=np.bool_)
            safe[cell[asked]] = certain[position][asked] | (position == self._arms - 1)
            self._cell.append(cell)
            size = np.maximum(self._sums_by_cell(position, self._counts, cells + 1), 1.0)
            errors = self._sums_by_cell(position, self._counts * wrong, cells + 1)
            pooled = (errors[~safe].sum() + 0.5) / (size[~safe].sum() + 1.0)
            self._size.append(size)
            self._certain.append(safe)
            self._risk.append(np.where(safe, 0.0, (errors + pooled) / (size + 1.0)))
            self._unseen.append(np.where(safe, 0.0, pooled / (size + 1.0)))

    def _sums_by_cell(self, position: int, values: Array, cells: int) -> Array:
        """Sum a value of every row over each cell of the prefix that ends at ``position``."""
        return np.asarray(np.bincount(self._cell[position], values, cells), dtype=np.float64)

    def certain_rule(self, stages: int, first: int) -> StoppingRule:
        """The cheapest rule that stops only at certain labels.

        Args:
            stages: the number of stages.
            first: how many arms to ask at first if there are no exploration rounds.
        """
        if not self._rows or stages == 1:
            return StoppingRule(first if stages > 1 else self._arms, ({},) * (stages - 1), certain=True)
        return self._reachable_rule(self._solve(stages, None))

    def learned_rule(self, stages: int, agreement: float) -> StoppingRule | None:
        """The cheapest rule whose labels equal the full vote in at least ``agreement`` of the rounds.

        The upper Clopper–Pearson bound on the rule's errors has to fit the error budget 1 − ``agreement``.
        The bound is computed from the smoothed errors, which are fractional and more than were observed,
        because the rule is chosen on the same rounds that judge it.

        Args:
            stages: the number of stages.
            agreement: the required share, in [0, 1].

        Returns:
            ``None`` if the evidence does not suffice for any such rule.
        """
        if not self._rows:
            return None
        low, high, best = 0, len(_PRICES), None
        while low < high:
            middle = (low + high) // 2
            solution = self._solve(stages, float(_PRICES[middle]))
            if self._error_bound(solution.error) <= 1.0 - agreement:
                best, high = solution, middle
            else:
                low = middle + 1
        return None if best is None else self._reachable_rule(best)

    def _error_bound(self, error: float) -> float:
        return float(upper_bound(error * self.rounds, self.rounds, CONFIDENCE))

    def _solve(self, stages: int, price: float | None) -> _Solution:
        """The optimal policy if an error costs ``price``; ``None`` allows no errors."""
        stop = [
            np.where(safe, 0.0, np.inf if price is None else price * risk)
            for safe, risk in zip(self._certain, self._risk, strict=True)
        ]
        values: list[Array] = stop
        choices: list[list[_Indices]] = []
        for stage in range(stages - 1):
            row_values = [self._counts * value[cell] for value, cell in zip(values, self._cell, strict=True)]
            solved = [
                self._bellman_step(position, stop[position], row_values, price, last=stage == 0)
                for position in range(self._arms)
            ]
            values = [value for value, _ in solved]
            choices.append([choice for _, choice in solved])
        choices.reverse()
        costs_by_start = [
            self._paid[k + 1] + float(self._counts @ values[k][self._cell[k]]) / self.rounds
            for k in range(self._arms)
        ]
        first = int(np.argmin(costs_by_start))
        risk = self._final_risk(self._paths(first, choices))
        return _Solution(first, choices, float(self._counts @ risk) / self.rounds, price)

    def _paths(self, first: int, choices: Sequence[Sequence[_Indices]]) -> list[_Indices]:
        """For each stage, the position of the last arm that every row was asked by then."""
        paths: list[_Indices] = [np.full(len(self._rows), first, dtype=np.int64)]
        for stage in choices:
            following = paths[-1].copy()
            for position in range(self._arms):
                here = paths[-1] == position
                following[here] = stage[position][self._cell[position][here]] - 1
            paths.append(following)
        return paths

    def _final_risk(self, paths: Sequence[_Indices]) -> Array:
        """Every row's risk at the prefix where it stops; 0 if the row ended before."""
        risk = np.zeros(len(self._rows))
        ends = paths[-1]
        for position in range(self._arms):
            here = ends == position
            risk[here] = self._risk[position][self._cell[position][here]]
            if len(paths) > 1:
                moved_on = (paths[-2] == position) & (ends > position) & (ends < self._arms - 1)
                risk[moved_on] += self._unseen[position][self._cell[position][moved_on]]
        return risk

    def _bellman_step(
        self, position: int, stop: Array, row_values: Sequence[Array], price: float | None, *, last: bool
    ) -> tuple[Array, _Indices]:
        """The cheaper of stopping and going on, for each cell of one prefix.

        Nothing can be asked after the last stage. A rule that makes no errors therefore asks all arms in it,
        and for the other rules a pattern that was never seen is a risk.

        Args:
            position: the last arm of the prefix.
            stop: the cost of stopping in each cell.
            row_values: position → every row's value after that prefix, times its count.
            price: λ, or ``None`` to allow no errors.
            last: whether the next stage is the last.

        Returns:
            Each cell's value, and how many arms to have asked after the next stage.
        """
        best = stop
        choice: _Indices = np.full(len(stop), position + 1, dtype=np.int64)
        end = self._arms - 1
        for further in range(max(position + 1, end if last and price is None else 0), self._arms):
            later = self._sums_by_cell(position, row_values[further], len(stop)) / self._size[position]
            value: Array = self._paid[further + 1] - self._paid[position + 1] + later
            if last and price is not None and further < end:
                value = value + price * self._unseen[position]
            better = value < best - TIE
            best = np.where(better, value, best)
            choice = np.where(better, further + 1, choice)
        return best, choice

    def _reachable_rule(self, solution: _Solution) -> StoppingRule:
        """The solution as a rule, restricted to the patterns that it can reach."""
        moves: list[dict[Signature, int]] = []
        going = [True] * len(self._rows)
        paths = self._paths(solution.first, solution.choices)
        for before, after in pairwise(paths):
            move: dict[Signature, int] = {}
            for row, (start, end) in enumerate(zip(before.tolist(), after.tolist(), strict=True)):
                cell = self._cell[start][row]
                if going[row] and not self._certain[start][cell]:
                    move[self._rows[row][: start + 1]] = end + 1
                going[row] = end > start
            moves.append(move)
        certain = solution.price is None
        return StoppingRule(
            solution.first + 1,
            tuple(moves),
            certain=certain,
            error=0.0 if certain else solution.error,
            price=solution.price or 0.0,
        )
