"""The search for the cheapest set whose every question is confident enough, within a budget."""

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
"""Relative: sums of the same prices in another order differ by rounding, whatever the unit."""
_SLACK = 1e-9


@dataclass(slots=True)
class _Finds:
    """Sets that reach δ, and those of them whose cost is tied with the cheapest."""

    sets: list[Array] = field(default_factory=list)
    costs: list[Array] = field(default_factory=list)
    reached: list[Array] = field(default_factory=list)
    limit: float = np.inf

    def add(self, sets: Array, costs: Array, reached: Array, enough: float) -> None:
        (hits,) = (reached >= enough).nonzero()
        if len(hits):
            self.limit = min(self.limit, float(costs[hits].min()) * (1.0 + COST_TIE))
            hits = hits[costs[hits] <= self.limit]
            self.sets.append(sets[hits])
            self.costs.append(costs[hits])
            self.reached.append(reached[hits])

    def best(self, arms: Sequence[int]) -> list[int] | None:
        """The winner by the rules of :func:`camvo.subsets.oracle.cheapest_subset`, as columns of the sets."""
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
    """The columns of the winner, ``None`` where no set reaches δ, and whether the search was complete.

    Args:
        questions: δ_A of each question; a column is a free arm, in the order of cost, or a held one.
        costs: of the free arms, shape (n,), ascending; the held ones come after them and cost nothing.
        arms: the position of each column in the order that settles the last ties.
        k_min: the fewest arms in a set, held ones included.
        delta: δ.
        budget: sets to compute δ_A of at the most; where it runs out, up to 2K + 1 guesses are added.
    """
    held = np.ones((1, len(arms) - len(costs)))
    finds, left = _Finds(), budget
    for free, prices in sets_by_cost(
        costs, k_min - held.shape[1], _screens(questions, len(costs), delta), budget + 1
    ):
        if prices[0] > finds.limit or (not finds.sets and left < budget and _hopeless(questions, delta)):
            break
        sets = np.concatenate((free, held.repeat(len(free), axis=0)), axis=1) if held.size else free
        looked_at = sets[:left]
        finds.add(looked_at, prices[:left], _reached(questions, looked_at), delta - TIE)
        if len(sets) > left and prices[left] <= finds.limit:
            guesses = _guesses(questions, len(costs), len(arms), k_min)
            reached = _reached(questions, guesses)
            finds.add(guesses, guesses[:, : len(costs)] @ costs, reached, delta - TIE)
            return finds.best(arms) or list(range(len(arms))), False
        left -= len(looked_at)
    return finds.best(arms), True


def _reached(questions: Sequence[Confidence], sets: Array) -> Array:
    weakest = questions[0].confidences(sets)
    for question in questions[1:]:
        weakest = np.minimum(weakest, question.confidences(sets))
    return weakest


def _hopeless(questions: Sequence[Confidence], delta: float) -> bool:
    return any(question.upper_bound() < delta - _SLACK for question in questions)


def _screens(questions: Sequence[Confidence], free: int, delta: float) -> list[Screen]:
    """The lines of each question over the free arms, what the held ones bring already taken off."""
    screens = []
    for question in questions:
        lines = question.linear_bounds(delta)
        if lines is not None:
            values, thresholds = lines
            screens.append((values[:, :free], thresholds - values[:, free:].sum(axis=1)))
    return screens


def _guesses(questions: Sequence[Confidence], free: int, arms: int, k_min: int) -> Array:
    """Sets worth a look when the budget is gone: the cheapest arms and the most confident, any number."""
    alone = np.array([min(question.confidence_of([arm]) for question in questions) for arm in range(free)])
    sets = np.zeros((2 * free, arms))
    sets[:, free:] = 1.0
    for number in range(free):
        sets[number, : number + 1] = 1.0
        sets[free + number, alone.argsort(kind="stable")[free - 1 - number :]] = 1.0
    large_enough: Array = sets[sets.sum(axis=1) >= k_min]
    return large_enough
