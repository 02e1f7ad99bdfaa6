"""Vote patterns along one order of asking: which rounds look alike after each prefix, and where they end.

Each distinct pattern is a row. The rows that agree on the votes of the first arms form a *cell* of that
prefix. A prefix is indexed by the position of its last arm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from camvo.numerics.tolerances import TIE
from camvo.state.vote_patterns import UNASKED, Signature
from camvo.typing import Array

Indices: TypeAlias = NDArray[np.int64]


class PrefixCells:
    """The cells of every prefix of one order.

    The last cell of a prefix holds the rows that ended before it. Their label was certain when they ended.

    Args:
        rows: n distinct patterns, at least one: the groups of the K arms, in the order of asking.
        weights: ω of each arm, shape (K,).

    Attributes:
        rows: the patterns.
        cell: position → the cell of each row, shape (n,).
        cells: position → the number of cells.
        certain: position → for each cell, whether no later vote can change its leader.
        wrong: position → for each row, whether stopping there gives another label than the full vote, shape
            (n,). A tie counts as wrong; a certain label does not.
    """

    def __init__(self, rows: Sequence[Signature], weights: Array) -> None:
        self.rows = list(rows)
        self.cell: list[Indices] = []
        self.cells: list[int] = []
        self.certain: list[NDArray[np.bool_]] = []
        self.wrong: list[NDArray[np.bool_]] = []
        groups = np.array(self.rows, dtype=np.int64)
        leaders, margins = _leads(groups, weights)
        for position in range(len(weights)):
            asked = groups[:, position] != UNASKED
            _, cell_of_asked = np.unique(groups[asked, : position + 1], axis=0, return_inverse=True)
            ended = int(cell_of_asked.max(initial=-1)) + 1
            cell = np.full(len(groups), ended, dtype=np.int64)
            cell[asked] = cell_of_asked.ravel()
            certain = np.ones(ended + 1, dtype=np.bool_)
            remaining = float(weights[position + 1 :].sum())
            certain[cell[asked]] = margins[position][asked] > remaining + 2.0 * TIE
            certain |= position == len(weights) - 1
            differs = (margins[position] <= TIE) | (leaders[position] != leaders[-1])
            self.cell.append(cell)
            self.cells.append(ended + 1)
            self.certain.append(certain)
            self.wrong.append(differs & ~certain[cell])

    def sums(self, position: int, values: Array) -> Array:
        """Sum a value of every row over each cell of the prefix that ends at ``position``.

        Args:
            position: the position of the prefix's last arm.
            values: shape (F, n).

        Returns:
            The sums, shape (F, cells).
        """
        cells = self.cells[position]
        into = self.cell[position] + cells * np.arange(len(values))[:, None]
        sums = np.bincount(into.ravel(), values.ravel(), cells * len(values))
        return sums.reshape(len(values), cells).astype(np.float64)


def _leads(groups: Indices, weights: Array) -> tuple[list[Indices], list[Array]]:
    """The leader of every row after each arm, and its lead over the next group; each of shape (n,)."""
    support = np.zeros((len(groups), len(weights) + 1))
    leaders: list[Indices] = []
    margins: list[Array] = []
    for position, weight in enumerate(weights.tolist()):
        voted = groups[:, position] >= 0
        support[voted, groups[voted, position]] += weight
        second, first = np.partition(support, -2, axis=1)[:, -2:].T
        leaders.append(support.argmax(axis=1))
        margins.append(first - second)
    return leaders, margins
