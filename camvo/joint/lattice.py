"""The lattice of votes: every combination of votes that a few arms can have given so far.

A node is a vote row without silent arms: which arms have voted, and who voted for the same label. Asking one
more arm leads from a node to a node with one more vote. With seven arms and many labels there are 4,140
nodes, with seven arms and two labels 2,187, so that the best order of asking can be computed exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import chain
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from camvo.errors import InvalidParameterError
from camvo.joint.votes import Rows, renumber
from camvo.state.exploration import UNASKED
from camvo.typing import Array

MOST_NODES = 25_000
"""A lattice has at most this many nodes: up to eight arms, or nine with two labels."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Asking one arm at all nodes at which the same number of arms have voted.

    Attributes:
        arm: the arm's position.
        nodes: the nodes at which it has not voted, shape (n,).
        following: the node after each vote, shape (G, n); −1 for a number that cannot follow.
        labels: how many labels each number represents: all labels without a vote share one, shape (G, n).
    """

    arm: int
    nodes: NDArray[np.int64]
    following: NDArray[np.int64]
    labels: Array


@dataclass(frozen=True, eq=False)
class Lattice:
    """The nodes of K arms and the steps between them.

    Attributes:
        rows: the vote row of each node, shape (N, K). The first node has no votes.
        steps: for each number of votes, from K − 1 down to 0, the steps that add one.
        after: the node after each vote of each arm at each node, shape (K, G, N); −1 where impossible.
        numbers: G, the largest count of different labels in a row.
        named: whether numbers are the labels themselves.
    """

    rows: Rows
    steps: tuple[tuple[Step, ...], ...]
    after: NDArray[np.int64]
    numbers: int
    named: bool
    _places: NDArray[np.int64] = field(repr=False)
    _codes: NDArray[np.int64] = field(repr=False)

    @cached_property
    def node_of(self) -> dict[tuple[int, ...], int]:
        """Vote row → its node, for rows without silent arms that are numbered by first appearance."""
        return {tuple(row): node for node, row in enumerate(self.rows.tolist())}

    @cached_property
    def levels(self) -> tuple[NDArray[np.int64], ...]:
        """The nodes of each entry of ``steps``, ascending."""
        return tuple(np.unique(np.concatenate([step.nodes for step in level])) for level in self.steps)

    def find(self, rows: Rows) -> NDArray[np.int64]:
        """The node of each vote row, shape (P,); silent arms count as not asked.

        Rows of labels without names are numbered by first appearance.
        """
        return np.searchsorted(self._codes, _code(rows, self._places))


@lru_cache(maxsize=16)
def vote_lattice(arms: int, labels: int, *, ordered: bool = False) -> Lattice:
    """The lattice of K ≥ 1 arms, at most :func:`most_arms`, and M ≥ 1 labels.

    Two labels and ordered ones are named; the model of votes treats others alike.
    """
    named = ordered or labels == 2
    numbers = labels if named else min(arms, labels)
    rows = np.zeros((1, 0), dtype=np.int64)
    for _ in range(arms):
        count = rows.max(axis=1, initial=-1) + 1
        parts = [np.column_stack((rows, np.full(len(rows), UNASKED)))]
        for number in range(numbers):
            possible = np.full(len(rows), True) if named else number <= count
            parts.append(np.column_stack((rows[possible], np.full(int(possible.sum()), number))))
        rows = np.concatenate(parts)
    places = (numbers + 1) ** np.arange(arms, dtype=np.int64)
    codes = _code(rows, places)
    ascending = np.argsort(codes)
    none = np.full((arms, numbers, len(rows)), -1, dtype=np.int64)
    lattice = Lattice(rows[ascending], (), none, numbers, named, places, codes[ascending])
    votes = (lattice.rows >= 0).sum(axis=1)
    steps = tuple(
        tuple(
            _step(lattice, np.flatnonzero((votes == size) & (lattice.rows[:, arm] < 0)), arm, labels)
            for arm in range(arms)
        )
        for size in reversed(range(arms))
    )
    after = none.copy()
    for step in chain.from_iterable(steps):
        after[step.arm][:, step.nodes] = step.following
    return replace(lattice, steps=steps, after=after)


@lru_cache(maxsize=64)
def most_arms(labels: int, nodes: int = MOST_NODES, *, ordered: bool = False) -> int:
    """The largest number of arms whose lattice has at most ``nodes`` nodes.

    Raises:
        InvalidParameterError: there are no labels, so that no number of arms is too large.
    """
    if labels < 1:
        raise InvalidParameterError("the lattice of votes needs labels")
    arms = 1
    while _nodes(arms + 1, labels, named=ordered or labels == 2) <= nodes:
        arms += 1
    return arms


def _nodes(arms: int, labels: int, *, named: bool) -> int:
    """The number of nodes: (M + 1)^K for labels with names, else by how many labels the votes name."""
    if named:
        return int((labels + 1) ** arms)
    by_count = [1] + [0] * min(arms, labels)
    for _ in range(arms):
        by_count = [
            count * (1 + named) + (by_count[named - 1] if named else 0)
            for named, count in enumerate(by_count)
        ]
        if sum(by_count) > MOST_NODES:
            break
    return sum(by_count)


def _step(lattice: Lattice, nodes: NDArray[np.int64], arm: int, labels: int) -> Step:
    rows = lattice.rows[nodes]
    count = np.maximum(rows.max(axis=1, initial=-1) + 1, 0)
    following = np.full((lattice.numbers, len(nodes)), -1, dtype=np.int64)
    stands_for = np.ones((lattice.numbers, len(nodes)))
    for number in range(lattice.numbers):
        possible = np.full(len(nodes), True) if lattice.named else number <= count
        after = rows[possible]
        after[:, arm] = number
        following[number, possible] = lattice.find(after if lattice.named else renumber(after))
        if not lattice.named:
            stands_for[number] = np.where(number == count, labels - number, 1)
    return Step(arm, nodes, following, stands_for)


def _code(rows: Rows, places: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.asarray(np.where(rows < 0, 0, rows + 1) @ places, dtype=np.int64)


_Places = NDArray[np.int64]

_known: WeakKeyDictionary[Lattice, dict[int, tuple[_Places, _Places, _Places]]] = WeakKeyDictionary()


def _passages(lattice: Lattice, nodes: _Places) -> tuple[_Places, _Places, _Places, _Places]:
    """The nodes that rounds at different nodes, shape (R,), pass through.

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
    """Count the rounds that pass through each of the N nodes.

    Each row of votes, shape (P, K), represents ``counts`` rounds. ``final`` is something of the label of each
    number at the row's own node, such as its probability, shape (P, ·). The result is the number of rounds in
    which the node's arms voted as it says, shape (N,), and the sum of ``final`` over these rounds for each of
    the node's G labels.
    """
    node = lattice.find(rows)
    ending, sums = (
        np.bincount(node, counts, len(lattice.rows)),
        np.zeros((len(lattice.rows), lattice.numbers)),
    )
    known = min(final.shape[1], lattice.numbers)  # a reference numbers no more labels than its rounds name
    np.add.at(sums[:, :known], node, counts[:, None] * final[:, :known])
    source, through, number, same = _passages(lattice, np.flatnonzero(ending))
    seen = np.asarray(np.bincount(through, ending[source], len(ending)), dtype=np.float64)
    weight = np.asarray(np.bincount(same, sums.reshape(-1)[number], sums.size), dtype=np.float64)
    return seen, weight.reshape(sums.shape)


def _found(lattice: Lattice, nodes: _Places) -> Iterator[tuple[int, tuple[_Places, _Places, _Places]]]:
    """The passages of each node, node by node."""
    rows, numbers = lattice.rows[nodes], lattice.numbers
    pairs: list[_Places] = []
    same: list[_Places] = []
    for arms in _subsets(rows.shape[1]):
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


def _by_node(
    nodes: int, pairs: list[_Places], same: list[_Places]
) -> Iterator[tuple[_Places, _Places, _Places]]:
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


def _subsets(arms: int) -> Iterator[_Places]:
    """Every nonempty set of arms, as positions."""
    for mask in range(1, 1 << arms):
        yield np.flatnonzero([(mask >> arm) & 1 for arm in range(arms)])
