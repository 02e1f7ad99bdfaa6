"""When to stop asking: dynamic programming over the patterns of votes that a coin's rounds have shown.

Arms are asked along an order, some at once. After each stage the choice is to stop with the leader, which is
wrong at a rate that the patterns tell, or to go on to a longer prefix, which costs money and leads to
patterns whose frequency they tell too. At a price of λ an error this is a finite decision problem, solved
backwards. λ is then the smallest at which the errors of the whole rule are within the budget.

What is certified stays out of the estimate: where the leader is ahead by more than all arms to come weigh,
stopping is right whatever they say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from camvo.numerics.proportion import upper_bound
from camvo.numerics.tolerances import TIE
from camvo.stages.rule import Rule
from camvo.state.vote_patterns import UNASKED, Signature
from camvo.typing import Array

CONFIDENCE = 0.95
"""Of the bound on a rule's errors that has to be within the budget. With agreement 0.99 it takes 299 rounds
without an error."""

_PRICES = 1.5 * 1.3 ** np.arange(24)
"""λ, in prices of asking everybody, from careless to careful."""

_Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Solution:
    """What is best at one λ: where to begin, and for stage, position and cell how many arms to have asked."""

    first: int
    choices: Sequence[Sequence[_Indices]]
    error: float
    price: float | None


class Stopping:
    """The patterns along one order, and what the weights of today make of them.

    Args:
        rows: the groups of the K arms, in the order in which they are asked → how many of the coin's rounds
            were like that.
        weights: ω of each arm, shape (K,).
        costs: of each of them as a share of asking all, shape (K,).
    """

    def __init__(self, rows: Mapping[Signature, int], weights: Array, costs: Array) -> None:
        self._paid = np.concatenate(([0.0], np.cumsum(costs)))
        self._arms = len(weights)
        self._rows = list(rows)
        self._counts = np.array(list(rows.values()), dtype=np.float64)
        self.rounds = float(self._counts.sum())
        if rows:
            self._count(np.array(self._rows, dtype=np.int64), weights)

    def _count(self, groups: _Indices, weights: Array) -> None:
        """For each length of the prefix: every row's cell, and each cell's sums.

        The last cell is that of rows which had ended; nothing is at stake in it. The risk of stopping in a
        cell is pooled with that of all cells of its length, as if there had been one round more like those;
        ``_unseen`` is what is added where the last votes may make a pattern that never came.
        """
        n = len(groups)
        support = np.zeros((n, self._arms + 1))
        leaders: list[_Indices] = []
        clear: list[NDArray[np.bool_]] = []
        left = float(weights.sum())
        certain: list[NDArray[np.bool_]] = []
        for position in range(self._arms):
            voted = groups[:, position] >= 0
            support[voted, groups[voted, position]] += weights[position]
            left -= weights[position]
            second, first = np.partition(support, -2, axis=1)[:, -2:].T
            leaders.append(support.argmax(axis=1))
            clear.append(first - second > TIE)
            certain.append(first - second > left + 2.0 * TIE)
        self._cell: list[_Indices] = []
        self._size: list[Array] = []
        self._risk: list[Array] = []
        self._unseen: list[Array] = []
        self._certain: list[NDArray[np.bool_]] = []
        for position in range(self._arms):
            there = groups[:, position] != UNASKED
            _, inside = np.unique(groups[there, : position + 1], axis=0, return_inverse=True)
            cells = int(inside.max(initial=-1)) + 1
            cell = np.full(n, cells, dtype=np.int64)
            cell[there] = inside.ravel()
            wrong = ~clear[position] | (leaders[position] != leaders[-1])
            safe = np.ones(cells + 1, dtype=np.bool_)
            safe[cell[there]] = certain[position][there] | (position == self._arms - 1)
            self._cell.append(cell)
            size = np.maximum(self._sums(position, self._counts, cells + 1), 1.0)
            errors = self._sums(position, self._counts * wrong, cells + 1)
            pooled = (errors[~safe].sum() + 0.5) / (size[~safe].sum() + 1.0)
            self._size.append(size)
            self._certain.append(safe)
            self._risk.append(np.where(safe, 0.0, (errors + pooled) / (size + 1.0)))
            self._unseen.append(np.where(safe, 0.0, pooled / (size + 1.0)))

    def _sums(self, position: int, values: Array, cells: int) -> Array:
        """The sum of the rows' values in each cell after ``position`` + 1 arms."""
        return np.asarray(np.bincount(self._cell[position], values, cells), dtype=np.float64)

    def certain(self, stages: int, first: int) -> Rule:
        """The cheapest rule that stops at certificates alone; ``first`` is the start without evidence."""
        if not self._rows or stages == 1:
            return Rule(first if stages > 1 else self._arms, ({},) * (stages - 1), certain=True)
        return self._rule(self._solve(stages, None))

    def learned(self, stages: int, agreement: float) -> Rule | None:
        """The cheapest rule whose labels are everybody's in at least ``agreement`` of the rounds.

        ``None`` where the evidence is not enough for any but certificates: the upper bound of Clopper and
        Pearson on the rule's errors has to be within the budget. It is read with the pooled errors, which are
        fractional and more than were seen, since the rule was chosen on the rounds that it is judged by.
        """
        if not self._rows:
            return None
        low, high, best = 0, len(_PRICES), None
        while low < high:
            middle = (low + high) // 2
            solution = self._solve(stages, float(_PRICES[middle]))
            if self._bound(solution.error) <= 1.0 - agreement:
                best, high = solution, middle
            else:
                low = middle + 1
        return None if best is None else self._rule(best)

    def _bound(self, error: float) -> float:
        return float(upper_bound(error * self.rounds, self.rounds, CONFIDENCE))

    def _solve(self, stages: int, price: float | None) -> _Solution:
        """The cheapest solution at λ = ``price`` an error; ``None`` for one that makes none."""
        stop = [
            np.where(safe, 0.0, np.inf if price is None else price * risk)
            for safe, risk in zip(self._certain, self._risk, strict=True)
        ]
        values: list[Array] = stop
        choices: list[list[_Indices]] = []
        for stage in range(stages - 1):
            ahead = [self._counts * value[cell] for value, cell in zip(values, self._cell, strict=True)]
            solved = [
                self._step(position, stop[position], ahead, price, last=stage == 0)
                for position in range(self._arms)
            ]
            values = [value for value, _ in solved]
            choices.append([choice for _, choice in solved])
        choices.reverse()
        begun = [
            self._paid[k + 1] + float(self._counts @ values[k][self._cell[k]]) / self.rounds
            for k in range(self._arms)
        ]
        first = int(np.argmin(begun))
        risk = self._risk_of(self._paths(first, choices))
        return _Solution(first, choices, float(self._counts @ risk) / self.rounds, price)

    def _paths(self, first: int, choices: Sequence[Sequence[_Indices]]) -> list[_Indices]:
        """After each stage, the last arm that every row was asked."""
        at: list[_Indices] = [np.full(len(self._rows), first, dtype=np.int64)]
        for stage in choices:
            then = at[-1].copy()
            for position in range(self._arms):
                here = at[-1] == position
                then[here] = stage[position][self._cell[position][here]] - 1
            at.append(then)
        return at

    def _risk_of(self, paths: Sequence[_Indices]) -> Array:
        """The risk of every row where it ends; none where it had ended before."""
        risk = np.zeros(len(self._rows))
        ends = paths[-1]
        for position in range(self._arms):
            here = ends == position
            risk[here] = self._risk[position][self._cell[position][here]]
            if len(paths) > 1:
                came = (paths[-2] == position) & (ends > position) & (ends < self._arms - 1)
                risk[came] += self._unseen[position][self._cell[position][came]]
        return risk

    def _step(
        self, position: int, stop: Array, ahead: Sequence[Array], price: float | None, *, last: bool
    ) -> tuple[Array, _Indices]:
        """The best of stopping and going on from each cell: its value, and how many arms are asked then.

        ``ahead`` is the value of every row after each number of arms, times its count. What follows the last
        stage is taken as it comes: certificates need everyone then, and whatever was never seen is a risk.
        """
        best = stop
        choice: _Indices = np.full(len(stop), position + 1, dtype=np.int64)
        end = self._arms - 1
        for further in range(max(position + 1, end if last and price is None else 0), self._arms):
            later = self._sums(position, ahead[further], len(stop)) / self._size[position]
            value: Array = self._paid[further + 1] - self._paid[position + 1] + later
            if last and price is not None and further < end:
                value = value + price * self._unseen[position]
            better = value < best - TIE
            best = np.where(better, value, best)
            choice = np.where(better, further + 1, choice)
        return best, choice

    def _rule(self, solution: _Solution) -> Rule:
        """The part of a solution that can be reached."""
        moves: list[dict[Signature, int]] = []
        going = [True] * len(self._rows)
        paths = self._paths(solution.first, solution.choices)
        for before, after in pairwise(paths):
            move: dict[Signature, int] = {}
            for row, (here, there) in enumerate(zip(before.tolist(), after.tolist(), strict=True)):
                cell = self._cell[here][row]
                if going[row] and not self._certain[here][cell]:
                    move[self._rows[row][: here + 1]] = there + 1
                going[row] = there > here
            moves.append(move)
        certain = solution.price is None
        return Rule(
            solution.first + 1,
            tuple(moves),
            certain=certain,
            error=0.0 if certain else solution.error,
            price=solution.price or 0.0,
        )
