"""Learn when to stop asking, by dynamic programming over the vote patterns of exploration rounds.

Arms are asked along a fixed order, a prefix at a time. After each stage there are two choices:

- Stop with the leader. The patterns give the rate at which the leader is not the label of the full vote.
- Ask a longer prefix. That costs money and leads to patterns whose frequencies are known as well.

At a price of λ per error this is a finite decision problem, which is solved backwards. λ is then the smallest
one at which the errors fit the error budget, on rounds that did not choose the rule.

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
from camvo.stages.pattern_folds import fold_counts
from camvo.stages.prefix_cells import Indices, PrefixCells
from camvo.stages.stopping_rule import StoppingRule, unseen_move
from camvo.state.vote_patterns import Signature
from camvo.typing import Array

CONFIDENCE = 0.8
"""The confidence level of the bound on a rule's errors. An agreement of 0.99 takes 161 rounds without an
error. A project follows dozens of rules one after another, and its agreement is their mean. So it is kept far
more often than a single rule (``docs/sequential.md``)."""

_FOLDS = 5
"""The rule of each price is fitted to all folds but one and tested on that one."""

_PRICES = 1.5 * 1.3 ** np.arange(24)
"""The values of λ to try, ascending, in prices of asking all models."""


@dataclass(frozen=True, slots=True, eq=False)
class _Solution:
    """The optimal policies at one λ, one for each of F sets of rounds.

    Attributes:
        first: the position of the last arm of the first stage, shape (F,).
        choices: stage → position → for each cell, how many arms to have asked after the next stage, shape
            (F, cells).
        price: λ, or ``None`` if the policy makes no errors.
    """

    first: Indices
    choices: Sequence[Sequence[Indices]]
    price: float | None


@dataclass(frozen=True, slots=True, eq=False)
class _Estimates:
    """What F sets of rounds say about the cells: position → for each set and cell, shape (F, cells).

    Attributes:
        counts: the number of rounds of each row, shape (F, n).
        size: the number of rounds in each cell, at least 1.
        empty: whether no round is in the cell.
        risk: the rate of errors of stopping. It is smoothed by one pseudo-round with the mean risk of the
            uncertain cells of the same prefix.
        unseen: the risk added where the last votes may form a pattern that was never seen.
    """

    counts: Array
    size: list[Array]
    empty: list[NDArray[np.bool_]]
    risk: list[Array]
    unseen: list[Array]


class StoppingProblem:
    """The decision problem of when to stop along one order, given vote patterns and weights.

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
        self._patterns = patterns
        self._counts = np.array(list(patterns.values()), dtype=np.float64)
        self.rounds = float(self._counts.sum())
        if patterns:
            self._cells = PrefixCells(tuple(patterns), weights)

    def certain_rule(self, stages: int, first: int) -> StoppingRule:
        """The cheapest rule that stops only at certain labels.

        Args:
            stages: the number of stages.
            first: how many arms to ask at first if there are no exploration rounds.
        """
        if not self._patterns or stages == 1:
            return StoppingRule(first if stages > 1 else self._arms, ({},) * (stages - 1), certain=True)
        return self._reachable_rule(self._solve(self._estimates(self._counts[None]), stages, None), 0.0)

    def learned_rule(self, stages: int, agreement: float) -> StoppingRule | None:
        """The cheapest rule whose labels equal the full vote in at least ``agreement`` of the rounds.

        The same rounds cannot choose a rule and judge it: of many rules, the one that looks best looks better
        than it is. So the rule of each λ is fitted to four fifths of the rounds and tested on the other
        fifth, five times over. The upper Clopper–Pearson bound on the errors of all five tests has to fit
        the error budget 1 − ``agreement``. The rule with that λ is then fitted to all rounds.

        Args:
            stages: the number of stages.
            agreement: the required share, in [0, 1].

        Returns:
            ``None`` if the evidence does not suffice for any such rule.
        """
        budget = 1.0 - agreement
        if not self._patterns or self._bound(0.0) > budget:
            return None
        held = fold_counts(self._patterns, _FOLDS)
        others = self._estimates(self._counts - held)
        low, high, best = 0, len(_PRICES), None
        while low < high:
            middle = (low + high) // 2
            price = float(_PRICES[middle])
            errors = self._errors(self._solve(others, stages, price), held)
            if self._bound(errors) <= budget:
                best, high = (price, errors), middle
            else:
                low = middle + 1
        if best is None:
            return None
        solution = self._solve(self._estimates(self._counts[None]), stages, best[0])
        return self._reachable_rule(solution, best[1] / self.rounds)

    def _bound(self, errors: float) -> float:
        return float(upper_bound(errors, self.rounds, CONFIDENCE))

    def _errors(self, solution: _Solution, counts: Array) -> float:
        """The number of wrong labels among rounds that did not choose the solutions, ``counts`` (F, n)."""
        ends = self._paths(solution)[-1]
        wrong = np.array(self._cells.wrong)[ends, np.arange(ends.shape[1])]
        return float((counts * wrong).sum())

    def _estimates(self, counts: Array) -> _Estimates:
        """Estimate each cell's risk of stopping from F sets of rounds, ``counts`` of shape (F, n)."""
        estimates = _Estimates(counts, [], [], [], [])
        for position in range(self._arms):
            certain = self._cells.certain[position]
            size = self._cells.sums(position, counts)
            errors = self._cells.sums(position, counts * self._cells.wrong[position])
            doubtful = (~certain).astype(np.float64)
            pooled = (errors @ doubtful + 0.5) / (size @ doubtful + 1.0)
            pooled = pooled[:, None]
            estimates.size.append(np.maximum(size, 1.0))
            estimates.empty.append(size <= 0.0)
            estimates.risk.append(np.where(certain, 0.0, (errors + pooled) / (size + 1.0)))
            estimates.unseen.append(np.where(certain, 0.0, pooled / (size + 1.0)))
        return estimates

    def _solve(self, estimates: _Estimates, stages: int, price: float | None) -> _Solution:
        """The optimal policy if an error costs ``price``; ``None`` allows no errors."""
        stop = [
            np.where(certain, 0.0, np.full_like(risk, np.inf) if price is None else price * risk)
            for certain, risk in zip(self._cells.certain, estimates.risk, strict=True)
        ]
        values: list[Array] = stop
        choices: list[list[Indices]] = []
        for stage in range(stages - 1):
            row_values = [
                estimates.counts * value[:, cell]
                for value, cell in zip(values, self._cells.cell, strict=True)
            ]
            solved = [
                self._bellman_step(position, stop[position], row_values, estimates, price, last=stage == 0)
                for position in range(self._arms)
            ]
            values = [value for value, _ in solved]
            choices.append([choice for _, choice in solved])
        choices.reverse()
        total = np.maximum(estimates.counts.sum(axis=1), 1.0)
        costs_by_start = [
            self._paid[k + 1] + (estimates.counts * values[k][:, self._cells.cell[k]]).sum(axis=1) / total
            for k in range(self._arms)
        ]
        return _Solution(np.argmin(costs_by_start, axis=0), choices, price)

    def _paths(self, solution: _Solution) -> list[Indices]:
        """For each stage, the position of the last arm that every row was asked by then, shape (F, n)."""
        paths: list[Indices] = [np.repeat(solution.first[:, None], len(self._counts), axis=1)]
        for stage in solution.choices:
            following = paths[-1].copy()
            for position in range(self._arms):
                part, row = np.nonzero(paths[-1] == position)
                following[part, row] = stage[position][part, self._cells.cell[position][row]] - 1
            paths.append(following)
        return paths

    def _bellman_step(
        self,
        position: int,
        stop: Array,
        row_values: Sequence[Array],
        estimates: _Estimates,
        price: float | None,
        *,
        last: bool,
    ) -> tuple[Array, Indices]:
        """The cheaper of stopping and going on, for each cell of one prefix.

        Nothing can be asked after the last stage. A rule that makes no errors therefore asks all arms in it,
        and for the other rules a pattern that was never seen is a risk. In a cell without rounds, the rule
        goes on as from every pattern that it has not seen.

        Args:
            position: the last arm of the prefix.
            stop: the cost of stopping in each cell, shape (F, cells).
            row_values: position → every row's value after that prefix, times its count, shape (F, n).
            estimates: what the rounds say about the cells.
            price: λ, or ``None`` to allow no errors.
            last: whether the next stage is the last.

        Returns:
            Each cell's value, and how many arms to have asked after the next stage.
        """
        best = stop
        choice: Indices = np.full(stop.shape, position + 1, dtype=np.int64)
        end = self._arms - 1
        for further in range(max(position + 1, end if last and price is None else 0), self._arms):
            later = self._cells.sums(position, row_values[further]) / estimates.size[position]
            value: Array = self._paid[further + 1] - self._paid[position + 1] + later
            if last and price is not None and further < end:
                value = value + price * estimates.unseen[position]
            better = value < best - TIE
            best = np.where(better, value, best)
            choice = np.where(better, further + 1, choice)
        lost = estimates.empty[position] & ~self._cells.certain[position]
        return best, np.where(lost, unseen_move(position + 1, self._arms, last=last), choice)

    def _reachable_rule(self, solution: _Solution, error: float) -> StoppingRule:
        """The first solution as a rule, restricted to the patterns that it can reach."""
        moves: list[dict[Signature, int]] = []
        going = [True] * len(self._counts)
        paths = self._paths(solution)
        for before, after in pairwise(paths):
            move: dict[Signature, int] = {}
            for row, (start, end) in enumerate(zip(before[0].tolist(), after[0].tolist(), strict=True)):
                cell = self._cells.cell[start][row]
                if going[row] and not self._cells.certain[start][cell]:
                    move[self._cells.rows[row][: start + 1]] = end + 1
                going[row] = end > start
            moves.append(move)
        return StoppingRule(
            int(solution.first[0]) + 1,
            tuple(moves),
            certain=solution.price is None,
            error=error,
            price=solution.price or 0.0,
        )
