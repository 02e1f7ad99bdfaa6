"""The nodes that a round passes through: every subset of its votes, and who is which label there."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from camvo.joint.lattice import Lattice, _passages, vote_lattice
from camvo.joint.votes import renumber
from camvo.state.exploration import UNASKED


def by_hand(lattice: Lattice, node: int) -> tuple[set[int], set[tuple[int, int]]]:
    """The same of one node, subset by subset: the nodes, and the pairs of a number there and here."""
    row, passed, same = lattice.rows[node], set(), set()
    voted = np.flatnonzero(row >= 0).tolist()
    for size in range(1, len(voted) + 1):
        for arms in combinations(voted, size):
            alone = np.full((1, len(row)), UNASKED)
            alone[0, list(arms)] = row[list(arms)]
            there = alone if lattice.named else renumber(alone)
            [through] = lattice.find(there)
            passed.add(int(through))
            same |= {(int(through) * lattice.numbers + int(there[0, arm]), int(row[arm])) for arm in arms}
    return passed, same


@pytest.mark.parametrize(("arms", "labels"), [(1, 2), (3, 2), (4, 2), (1, 4), (3, 3), (4, 4), (3, 1)])
def test_a_round_passes_through_every_subset_of_its_votes(arms: int, labels: int) -> None:
    lattice = vote_lattice(arms, labels)
    nodes = np.arange(len(lattice.rows))
    source, through, number, there = _passages(lattice, nodes)
    for node in nodes.tolist():
        passed, same = by_hand(lattice, node)
        assert set(through[source == node].tolist()) == passed
        of_node = number // lattice.numbers == node
        pairs = set(zip(there[of_node].tolist(), (number[of_node] % lattice.numbers).tolist(), strict=True))
        assert same <= pairs
        assert pairs == same or lattice.named  # there, labels without a vote are numbered too


def test_nodes_that_are_known_already_are_found_beside_new_ones() -> None:
    lattice = vote_lattice(3, 3)
    first = _passages(lattice, np.array([5]))
    both = _passages(lattice, np.array([2, 5]))
    assert both[1][both[0] == 5].tolist() == first[1].tolist()


def test_no_round_passes_through_nothing() -> None:
    assert [len(part) for part in _passages(vote_lattice(3, 2), np.zeros(0, dtype=np.int64))] == [0] * 4
