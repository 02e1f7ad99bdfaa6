"""The Oracle for the Beta approximation and at most 12 arms: one table of all sets.

The costs and confidences of all sets are a few matrix products, for one task or a window of tasks. The
cheapest set that may be confident enough is nearly always the answer. All other sets of a task are compared
only if that set is not confident enough, or another set costs the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from camvo.numerics.small import TIE
from camvo.subsets.confidence import confidence_by_beta_sums, confidences_by_beta_sums, may_reach
from camvo.subsets.oracle import COST_TIE, Demand, Subset, check_costs
from camvo.typing import Array

MOST_SETS = 2**12
"""The most sets of a table. With more sets the search is faster."""

_CELLS = 2**14
"""The most sets × tasks that are in memory at once, so that they fit into a cache."""


@dataclass(frozen=True, slots=True, eq=False)
class _Sets:
    """All M sets that may be asked, in the order of the last tie-break.

    Attributes:
        arms: the positions of the arms of each set.
        indicators: the sets as columns, shape (K, M).
    """

    arms: tuple[tuple[int, ...], ...]
    indicators: Array


def cheapest_subsets(
    costs: Array, demands: Sequence[Demand], delta: float, k_min: int, *, held: Sequence[int]
) -> list[Subset | None]:
    """Find the cheapest set of each task by the Beta approximation; equal to :func:`.oracle.cheapest_subset`.

    Args:
        costs: what asking each arm costs in every task, shape (K,), with 2^K ≤ :data:`MOST_SETS`.
        demands: one (L, ω) per question, each of shape (W, K): one row per task.
        delta: δ in (½, 1).
        k_min: the fewest arms in a set.
        held: positions that are in every set.

    Returns:
        The subset of each of the W tasks, or ``None`` if no set qualifies.

    Raises:
        InvalidParameterError: a cost is negative or not finite.
    """
    check_costs(costs)
    tasks = len(demands[0][0])
    sets = _sets(len(costs), tuple(held), k_min)
    if not sets.arms:
        return [None] * tasks
    if held:
        costs = costs.copy()
        costs[list(held)] = 0.0
    prices = costs @ sets.indicators
    step = max(_CELLS // len(sets.arms), 1)
    subsets: list[Subset | None] = []
    for start in range(0, tasks, step):
        block = slice(start, start + step)
        block_demands = [(lower[block], weights[block]) for lower, weights in demands]
        subsets.extend(_cheapest_of_block(sets, prices, block_demands, delta))
    return subsets


def _cheapest_of_block(
    sets: _Sets, prices: Array, demands: Sequence[Demand], delta: float
) -> list[Subset | None]:
    """The subsets for a block of tasks; ``prices`` are those of the sets, shape (M,)."""
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
    """The subset for one task.

    Args:
        sets: the table.
        offers: the cost of each set, ∞ if it cannot be confident enough, shape (M,).
        first: the position of the cheapest set.
        sums: for each question, Σ ωL and Σ ω(1−L) of each set, each of shape (M,).
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
    """All sets of at least ``k_min`` of n arms that contain the held arms."""
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
