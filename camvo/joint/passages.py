"""Which nodes of a lattice a round passes through: those of every subset of its votes.

They hang on nothing but the round's own node, so they are found once for each node that occurs.
"""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from camvo.joint.lattice import Lattice
from camvo.joint.vote_rows import Rows, renumber
from camvo.state.vote_patterns import UNASKED
from camvo.typing import Array

Places = NDArray[np.int64]

_known: WeakKeyDictionary[Lattice, dict[int, tuple[Places, Places, Places]]] = WeakKeyDictionary()


def passages(lattice: Lattice, nodes: Places) -> tuple[Places, Places, Places, Places]:
    """The nodes that rounds at some nodes pass through.

    Args:
        lattice: the lattice, N nodes with G numbers each.
        nodes: the nodes of rounds, different ones, shape (R,).

    Returns:
        Pairs of a node of ``nodes`` and one that it passes through; and pairs of numbers that mean the same
        label, the one at the former and the one at the latter, each as node · G + number.
    """
    known = _known.setdefault(lattice, {})
    missing = [node for node in nodes.tolist() if node not in known]
    if missing:
        known.update(_found(lattice, np.array(missing, dtype=np.int64)))
    parts = [known[node] for node in nodes.tolist()]
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        return none, none, none, none
    through, before, after = (np.concatenate([part[place] for part in parts]) for place in range(3))
    return np.repeat(nodes, [len(part[0]) for part in parts]), through, before, after


def count_passing(lattice: Lattice, rows: Rows, counts: Array, final: Array) -> tuple[Array, Array]:
    """Count the rounds that pass through each node.

    Args:
        lattice: the lattice, N nodes with G numbers each.
        rows: the votes of rounds, shape (P, K), as :meth:`.Lattice.find` takes them.
        counts: how many rounds each row stands for, shape (P,).
        final: something of the label of each number at the row's own node, such as its probability; at most
            G numbers count, shape (P, ·).

    Returns:
        The number of rounds in which the node's arms voted as it says, shape (N,); and the sum of ``final``
        over these rounds, for each of the node's labels, shape (N, G).
    """
    node = lattice.find(rows)
    ending, sums = (
        np.bincount(node, counts, len(lattice.rows)),
        np.zeros((len(lattice.rows), lattice.numbers)),
    )
    known = min(final.shape[1], lattice.numbers)  # a reference numbers no more labels than its rounds name
    np.add.at(sums[:, :known], node, counts[:, None] * final[:, :known])
    source, through, number, same = passages(lattice, np.flatnonzero(ending))
    seen = np.asarray(np.bincount(through, ending[source], len(ending)), dtype=np.float64)
    weight = np.asarray(np.bincount(same, sums.reshape(-1)[number], sums.size), dtype=np.float64)
    return seen, weight.reshape(sums.shape)


def _found(lattice: Lattice, nodes: Places) -> Iterator[tuple[int, tuple[Places, Places, Places]]]:
    """The passages of each node, node by node."""
    rows, numbers = lattice.rows[nodes], lattice.numbers
    pairs: list[Places] = []
    same: list[Places] = []
    for arms in subsets(rows.shape[1]):
        voted = np.flatnonzero((rows[:, arms] >= 0).all(axis=1))
        part = rows[voted][:, arms]
        alone = np.full((len(part), rows.shape[1]), UNASKED, dtype=np.int64)
        alone[:, arms] = part if lattice.named else renumber(part)
        through = lattice.find(alone)
        pairs.append(np.stack((voted, through)))
        if lattice.named:
            both = np.arange(numbers)
            places = [(nodes[voted] * numbers)[:, None] + both, (through * numbers)[:, None] + both]
            same.append(np.stack([np.repeat(voted, numbers), *(place.reshape(-1) for place in places)]))
            continue
        highest = np.full(len(part), -1)
        for position, arm in enumerate(arms):
            number = alone[:, arm]
            first = np.flatnonzero(number > highest)
            highest[first] = number[first]
            before = nodes[voted[first]] * numbers + part[first, position]
            same.append(np.stack((voted[first], before, through[first] * numbers + number[first])))
    return zip(nodes.tolist(), _by_node(len(nodes), pairs, same), strict=True)


def _by_node(nodes: int, pairs: list[Places], same: list[Places]) -> Iterator[tuple[Places, Places, Places]]:
    """Sort what was found subset by subset by the position of its node."""
    (of_pair, through), (of_same, before, after) = (np.concatenate(found, axis=1) for found in (pairs, same))
    by_pair, by_same = np.argsort(of_pair, kind="stable"), np.argsort(of_same, kind="stable")
    pair_ends = np.searchsorted(of_pair[by_pair], np.arange(1, nodes))
    same_ends = np.searchsorted(of_same[by_same], np.arange(1, nodes))
    return zip(
        np.split(through[by_pair], pair_ends),
        np.split(before[by_same], same_ends),
        np.split(after[by_same], same_ends),
        strict=True,
    )


def subsets(arms: int) -> Iterator[Places]:
    """Every nonempty set of arms, as positions."""
    for mask in range(1, 1 << arms):
        yield np.flatnonzero([(mask >> arm) & 1 for arm in range(arms)])
