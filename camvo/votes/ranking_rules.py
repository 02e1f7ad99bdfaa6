"""From weighted rankings to one: the sum of scores or of Borda's points, and Kemeny's order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from camvo.errors import InvalidParameterError
from camvo.numerics.tolerances import TIE
from camvo.typing import Array

MAX_KEMENY_ITEMS = 8
"""Kemeny's order is searched among all orders of up to this many items: m·2ᵐ⁻¹ steps."""


def pairwise_preferences(heights: Array) -> Array:
    """Who is ranked above whom: 1 where item i is above item j, ½ where they are level, else 0.

    Args:
        heights: of the items, higher is better, shape (…, m).

    Returns:
        shape (…, m, m).
    """
    preferred: Array = (np.sign(heights[..., :, None] - heights[..., None, :]) + 1.0) / 2.0
    return preferred


def borda_points(heights: Array) -> Array:
    """Borda's points: one for every item ranked below, half of one for a level one; shape (…, m)."""
    points: Array = pairwise_preferences(heights).sum(axis=-1) - 0.5
    return points


def order_by_totals(totals: Array, tie_breakers: Array) -> list[int]:
    """The items from the largest total to the smallest, both arguments of shape (m,).

    Totals that differ by less than 1e-12 are tied; the larger tie-breaker goes first, then the earlier item.
    """
    left, order = list(range(len(totals))), []
    while left:
        candidates = left
        for values in (totals, tie_breakers):
            top = max(values[item] for item in candidates)
            candidates = [item for item in candidates if values[item] >= top - TIE]
        order.append(candidates[0])
        left.remove(candidates[0])
    return order


def kemeny_order(preferences: Array, tie_breakers: Array) -> list[int]:
    """Kemeny's order: the one that agrees with the most weight over all pairs of items (dynamic programming).

    Ties go to the order that agrees most with ``tie_breakers``, then to the one whose items come first.

    Args:
        preferences: the weight that puts item i above item j, shape (m, m).
        tie_breakers: the same with other weights, shape (m, m).

    Raises:
        InvalidParameterError: more than :data:`MAX_KEMENY_ITEMS` items.
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
    """For each row, the sum of its entries over every subset of columns: shape (m, 2ᵐ)."""
    sums = np.zeros((len(weights), 1))
    for column in weights.T:
        sums = np.concatenate((sums, sums + column[:, None]), axis=1)
    return sums
