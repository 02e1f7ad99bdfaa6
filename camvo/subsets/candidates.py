"""Candidate sets of arms in the order of their cost, without sets that cannot be confident enough."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from camvo.subsets.enumeration import Screen, all_sets, pairs_by_cost, split_arms
from camvo.typing import Array

_BLOCK, _LARGEST_BLOCK, _GROWTH = 32, 1024, 4
"""The size of the first block, the largest size, and the factor from one block to the next."""


def sets_by_cost(
    costs: Array, fewest: int, screens: Sequence[Screen], most: int
) -> Iterator[tuple[Array, Array]]:
    """Yield blocks of sets in the order of their cost.

    Every set of at least ``fewest`` arms that passes all screens is yielded exactly once, at least for the
    ``most`` cheapest sets. Sets beyond these may be missing.

    Args:
        costs: what each arm costs, shape (n,), ascending.
        fewest: the fewest arms in a set.
        screens: the linear bounds of each question that has any.
        most: how many sets the caller will look at.

    Yields:
        Indicator rows, shape (m, n), and costs, shape (m,), which ascend within and across blocks.
    """
    cheap, dear = (all_sets(n) for n in split_arms(len(costs)))
    for row, column, cost in pairs_by_cost(costs, fewest, screens):
        if len(cost) <= most:
            order = cost.argsort(kind="stable")
        else:
            order = np.argpartition(cost, most - 1)[:most]
            order = order[cost[order].argsort(kind="stable")]
        start, size = 0, _BLOCK
        while start < len(order):
            block = order[start : start + size]
            sets = cheap.take(column[block], axis=1)
            if len(dear):
                sets = np.concatenate((sets, dear[:, row[block]]))
            yield sets.T, cost[block]
            start, size = start + size, min(size * _GROWTH, _LARGEST_BLOCK)
