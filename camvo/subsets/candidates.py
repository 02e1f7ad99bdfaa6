"""Sets of arms in the order of their cost, without those that cannot be confident enough."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from camvo.subsets.enumeration import Screen, all_sets, pairs_by_cost, split_arms
from camvo.typing import Array

_BLOCK, _LARGEST_BLOCK, _GROWTH = 32, 1024, 4
"""Sets in the first block, in the largest, and how many times more there are in each further one."""


def sets_by_cost(
    costs: Array, fewest: int, screens: Sequence[Screen], most: int
) -> Iterator[tuple[Array, Array]]:
    """Blocks of sets and their costs: indicator rows (m, n), and (m,) ascending, from block to block too.

    Every set of at least ``fewest`` arms that passes each screen comes exactly once, at least until ``most``
    sets have come; after that sets may be missing.

    Args:
        costs: what each arm costs, shape (n,), ascending.
        fewest: the fewest arms in a set.
        screens: one for each question about which something is known.
        most: how many sets the caller will look at.
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
