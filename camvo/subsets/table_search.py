"""The Oracle for the Beta approximation and a dozen arms or fewer: one table of all sets.

What every set costs and what its vote is worth are then a few matrix products, for one task as for a window
of them. The cheapest set that can be confident enough is nearly always the answer; only where it is not, or
where another costs the same, is a task looked at more closely.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from camvo.numerics.tolerances import TIE
from camvo.subsets.beta_confidence import may_reach
from camvo.subsets.confidence import confidence_by_beta_sums, confidences_by_beta_sums
from camvo.subsets.oracle import Demand, Subset, check_costs
from camvo.subsets.search import COST_TIE
from camvo.typing import Array

MOST_SETS = 2**12
"""With more sets than this the table costs more than the search."""

_CELLS = 2**14
"""Sets times tasks that are in memory together: what fits into a cache."""


@dataclass(frozen=True, slots=True, eq=False)
class _Sets:
    """All sets that may be asked, M of them, in the order that settles ties; indicators of shape (K, M)."""

    arms: tuple[tuple[int, ...], ...]
    indicators: Array


def cheapest_subsets(
    costs: Array, demands: Sequence[Demand], delta: float, k_min: int, *, held: Sequence[int]
) -> list[Subset | None]:
    """The cheapest set for each task by the Beta approximation, equal to :func:`.oracle.cheapest_subset`.

    Args:
        costs: what asking each arm costs in every task, shape (K,), with 2^K ≤ :data:`MOST_SETS`.
        demands: one (L, ω) a question, each of shape (W, K): a row for each task.
        delta: δ in (½, 1).
        k_min: the fewest arms in a set.
        held: positions that are in every set.

    Returns:
        The subset of each task, ``None`` where there is no such set.

    Raises:
        InvalidParameterError: costs that are negative or not finite.
    """
    check_costs(costs)
    tasks = len(demands[0][0])
    sets = _sets(len(costs), tuple(held), k_min)
    if not sets.arms:
        return [None] * tasks
    if held:
        costs = costs.copy()
        costs[list(held)] = 0.0
    offers = costs @ sets.indicators
    step = max(_CELLS // len(sets.arms), 1)
    found: list[Subset | None] = []
    for start in range(0, tasks, step):
        block = slice(start, start + step)
        some = [(lower[block], weights[block]) for lower, weights in demands]
        found.extend(_cheapest_of_some(sets, offers, some, delta))
    return found


def _cheapest_of_some(
    sets: _Sets, prices: Array, demands: Sequence[Demand], delta: float
) -> list[Subset | None]:
    """The answers for as many tasks as are in memory together; ``prices`` are those of the sets, (M,)."""
    offers, sums = prices, []
    for lower, weights in demands:
        on_right = weights * lower
        right, wrong = on_right @ sets.indicators, (weights - on_right) @ sets.indicators
        offers = np.where(may_reach(delta, right, wrong), offers, np.inf)
        sums.append((right, wrong))
    return [
        _chosen(sets, offers[task], number, [(right[task], wrong[task]) for right, wrong in sums], delta)
        for task, number in enumerate(offers.argmin(axis=1).tolist())
    ]


def _chosen(
    sets: _Sets, offers: Array, first: int, sums: Sequence[tuple[Array, Array]], delta: float
) -> Subset | None:
    """The answer for one task.

    Args:
        sets: the table.
        offers: what each set costs, infinite where it cannot be confident enough, shape (M,).
        first: the number of the cheapest.
        sums: Σ ωL and Σ ω(1−L) of each set on every question, of shape (M,) each.
        delta: δ.
    """
    price = offers.item(first)
    if price == math.inf:
        return None
    if np.count_nonzero(offers <= price * (1.0 + COST_TIE)) == 1:
        confidence = min(
            [confidence_by_beta_sums(right.item(first), wrong.item(first)) for right, wrong in sums]
        )
        if confidence >= delta - TIE:
            return Subset(sets.arms[first], confidence)
    (rivals,) = np.isfinite(offers).nonzero()
    reached = np.minimum.reduce(
        [confidences_by_beta_sums(right[rivals], wrong[rivals]) for right, wrong in sums]
    )
    enough = reached >= delta - TIE
    if not enough.any():
        return None
    rivals, reached = rivals[enough], reached[enough]
    prices = offers[rivals]
    tied = prices <= prices.min() * (1.0 + COST_TIE)
    tied &= reached >= reached[tied].max() - TIE
    winner = int(tied.argmax())
    return Subset(sets.arms[rivals[winner]], float(reached[winner]))


@lru_cache(maxsize=16)
def _sets(n: int, held: tuple[int, ...], k_min: int) -> _Sets:
    arms = tuple(
        chosen
        for size in range(max(k_min, 1), n + 1)
        for chosen in combinations(range(n), size)
        if set(held) <= set(chosen)
    )
    indicators = np.zeros((n, len(arms)))
    for number, chosen in enumerate(arms):
        indicators[list(chosen), number] = 1.0
    return _Sets(arms, indicators)
