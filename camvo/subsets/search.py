"""Budgeted search for the cheapest set of arms that is confident enough on every question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from camvo.numerics.tolerances import TIE
from camvo.subsets.candidates import sets_by_cost
from camvo.subsets.confidence import Confidence
from camvo.subsets.enumeration import Screen
from camvo.typing import Array

COST_TIE = 1e-12
"""Relative tolerance of costs: sums of the same prices in another order differ by rounding."""
_SLACK = 1e-9


@dataclass(slots=True)
class _ConfidentSets:
    """The sets found so far that reach δ at a cost tied with the cheapest.

    Attributes:
        sets: blocks of indicator rows, each of shape (m, n).
        costs: the costs of each block, shape (m,).
        reached: δ_A of each block, shape (m,).
        limit: the highest cost that is tied with the cheapest.
    """

    sets: list[Array] = field(default_factory=list)
    costs: list[Array] = field(default_factory=list)
    reached: list[Array] = field(default_factory=list)
    limit: float = np.inf

    def add(self, sets: Array, costs: Array, reached: Array, enough: float) -> None:
        """Add those of m sets that reach ``enough`` and are not dearer than the limit."""
        (hits,) = (reached >= enough).nonzero()
        if len(hits):
            self.limit = min(self.limit, float(costs[hits].min()) * (1.0 + COST_TIE))
            hits = hits[costs[hits] <= self.limit]
            self.sets.append(sets[hits])
            self.costs.append(costs[hits])
            self.reached.append(reached[hits])

    def best(self, arms: Sequence[int]) -> list[int] | None:
        """The winner by the tie-breaks of :func:`.cheapest_subset`, as columns, or ``None`` without sets."""
        if not self.sets:
            return None
        if len(self.sets) == 1 and len(self.sets[0]) == 1:
            only: list[int] = self.sets[0][0].nonzero()[0].tolist()
            return only
        sets, costs, reached = (np.concatenate(parts) for parts in (self.sets, self.costs, self.reached))
        tied = costs <= self.limit
        tied &= reached >= reached[tied].max() - TIE
        rivals = sets[tied]
        if len(rivals) > 1:
            sizes = rivals.sum(axis=1)
            rivals = rivals[sizes == sizes.min()]
        members = [row.nonzero()[0].tolist() for row in rivals]
        winner: list[int] = min(members, key=lambda columns: sorted(arms[column] for column in columns))
        return winner


def search_cheapest(
    questions: Sequence[Confidence],
    costs: Array,
    arms: Sequence[int],
    *,
    k_min: int,
    delta: float,
    budget: int,
) -> tuple[list[int] | None, bool]:
    """Search for the cheapest set that is confident enough on every question.

    If the budget runs out, up to 2K guesses are tried in addition.

    Args:
        questions: δ_A of each question. The columns are the free arms, ascending by cost, then the held arms.
        costs: the costs of the n free arms, shape (n,), ascending. Held arms cost nothing.
        arms: the position of the arm in each column; the last tie-break compares positions.
        k_min: the fewest arms in a set, held arms included.
        delta: δ.
        budget: the most sets to compute δ_A of.

    Returns:
        The columns of the winner, or ``None`` if no set reaches δ; and whether the search was complete.
    """
    held = np.ones((1, len(arms) - len(costs)))
    finds, remaining = _ConfidentSets(), budget
    for free, prices in sets_by_cost(
        costs, k_min - held.shape[1], _screens(questions, len(costs), delta), budget + 1
    ):
        if prices[0] > finds.limit or (not finds.sets and remaining < budget and _hopeless(questions, delta)):
            break
        sets = np.concatenate((free, held.repeat(len(free), axis=0)), axis=1) if held.size else free
        evaluated = sets[:remaining]
        finds.add(evaluated, prices[:remaining], _weakest(questions, evaluated), delta - TIE)
        if len(sets) > remaining and prices[remaining] <= finds.limit:
            guesses = _guesses(questions, len(costs), len(arms), k_min)
            reached = _weakest(questions, guesses)
            finds.add(guesses, guesses[:, : len(costs)] @ costs, reached, delta - TIE)
            return finds.best(arms) or list(range(len(arms))), False
        remaining -= len(evaluated)
    return finds.best(arms), True


def _weakest(questions: Sequence[Confidence], sets: Array) -> Array:
    """δ_A of each set on the question where it is lowest, shape (m,)."""
    weakest = questions[0].confidences(sets)
    for question in questions[1:]:
        weakest = np.minimum(weakest, question.confidences(sets))
    return weakest


def _hopeless(questions: Sequence[Confidence], delta: float) -> bool:
    """Whether a bound shows that no set reaches δ."""
    return any(question.upper_bound() < delta - _SLACK for question in questions)


def _screens(questions: Sequence[Confidence], free: int, delta: float) -> list[Screen]:
    """The linear bounds of each question over the free arms, minus the values of the held arms."""
    screens = []
    for question in questions:
        lines = question.linear_bounds(delta)
        if lines is not None:
            values, thresholds = lines
            screens.append((values[:, :free], thresholds - values[:, free:].sum(axis=1)))
    return screens


def _guesses(questions: Sequence[Confidence], free: int, arms: int, k_min: int) -> Array:
    """Sets to try when the budget is spent: for each size, the cheapest arms and the most confident arms."""
    alone = np.array([min(question.confidence_of([arm]) for question in questions) for arm in range(free)])
    sets = np.zeros((2 * free, arms))
    sets[:, free:] = 1.0
    for number in range(free):
        sets[number, : number + 1] = 1.0
        sets[free + number, alone.argsort(kind="stable")[free - 1 - number :]] = 1.0
    large_enough: Array = sets[sets.sum(axis=1) >= k_min]
    return large_enough
