"""Rules that combine weighted rankings: sums of scores, Borda's points and Kemeny's order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from camvo.errors import InvalidParameterError
from camvo.numerics.tolerances import TIE
from camvo.typing import Array

MAX_KEMENY_ITEMS = 8
"""The most items for Kemeny's order, whose search takes m·2ᵐ⁻¹ steps for m items."""


def pairwise_preferences(heights: Array) -> Array:
    """Compare all pairs of items: 1 if item i is above item j, ½ if they are level, else 0.

    Args:
        heights: the height of each item, higher is better, shape (…, m).

    Returns:
        The comparison of i with j at [..., i, j], shape (…, m, m).
    """
    one, other = heights[..., :, None], heights[..., None, :]  # their difference could overflow
    preferred: Array = (np.greater(one, other) + np.greater_equal(one, other).astype(np.float64)) / 2.0
    return preferred


def borda_points(heights: Array) -> Array:
    """Compute Borda's points: 1 for each item ranked below and ½ for each level item.

    Args:
        heights: the height of each item, higher is better, shape (…, m).

    Returns:
        The points of each item, shape (…, m).
    """
    points: Array = pairwise_preferences(heights).sum(axis=-1) - 0.5
    return points


def order_by_totals(totals: Array, tie_breakers: Array) -> list[int]:
    """Sort items by descending total.

    Totals that differ by less than 1e-12 are tied. Ties go to the larger tie-breaker, then to the earlier
    item.

    Args:
        totals: shape (m,).
        tie_breakers: shape (m,).

    Returns:
        The positions of the m items, best first.
    """
    remaining, order = list(range(len(totals))), []
    while remaining:
        candidates = remaining
        for values in (totals, tie_breakers):
            top = max(values[item] for item in candidates)
            candidates = [item for item in candidates if values[item] >= top - TIE]
        order.append(candidates[0])
        remaining.remove(candidates[0])
    return order


def kemeny_order(preferences: Array, tie_breakers: Array) -> list[int]:
    """Find Kemeny's order, which agrees with the most weight over all pairs of items.

    Ties go to the order that agrees most with ``tie_breakers``, then to the order whose items come first.
    The search is dynamic programming over subsets of items.

    Args:
        preferences: the weight that puts item i above item j, shape (m, m).
        tie_breakers: the same with the tie-breakers as weights, shape (m, m).

    Returns:
        The positions of the m items, best first.

    Raises:
        InvalidParameterError: there are more than :data:`MAX_KEMENY_ITEMS` items.
    """
    m = len(preferences)
    if m > MAX_KEMENY_ITEMS:
        raise InvalidParameterError(
            f"{m} items, Kemeny's rule takes at most {MAX_KEMENY_ITEMS}", fix="use Borda's"
        )
    gains = [_sums_over_subsets(weights) for weights in (preferences, tie_breakers)]
    best, first = np.zeros((2**m, 2)), [0] * 2**m
    for items in range(1, 2**m):
        top = np.full(2, -np.inf)
        for item in range(m):
            if items >> item & 1:
                rest = items & ~(1 << item)
                value = best[rest] + [gain[item, rest] for gain in gains]
                if value[0] > top[0] + TIE or (value[0] >= top[0] - TIE and value[1] > top[1] + TIE):
                    top, first[items] = value, item
        best[items] = top
    order, items = [], 2**m - 1
    while items:
        order.append(first[items])
        items &= ~(1 << first[items])
    return order


def _sums_over_subsets(weights: Array) -> NDArray[np.float64]:
    """For each row, the sum of its entries over every subset of columns, shape (m, 2ᵐ)."""
    sums = np.zeros((len(weights), 1))
    for column in weights.T:
        sums = np.concatenate((sums, sums + column[:, None]), axis=1)
    return sums
