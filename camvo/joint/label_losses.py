"""Labels that are not worth the same: what missing each of them loses, in answers and in plans.

A decision v where z is right loses what z is worth. So the answer is the label with the least expected loss,
and a plan weighs the loss that further votes avoid. Plans of more than two labels number labels by first
appearance, and treat labels alike. Where some are worth more, each node of their lattice is split by what the
labels that were voted for are worth: labels of equal worth stay alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from camvo.joint.beliefs import Beliefs, Misses
from camvo.joint.lattice import MOST_NODES, Lattice, Step, most_arms, vote_lattice
from camvo.joint.votes import Rows, renumber
from camvo.state.exploration import UNASKED
from camvo.typing import Array

LabelLosses: TypeAlias = tuple[tuple[str, float], ...]
"""(label, what missing it loses, in right labels) for every label; empty if each loses one right label."""

NO_LOSSES: Final[LabelLosses] = ()


def answer_values(probabilities: Mapping[str, float], losses: LabelLosses) -> Mapping[str, float]:
    """The value of each label as the answer: its probability, or 1 − the expected loss.

    >>> answer_values({"Fraud": 0.2, "Fine": 0.8}, (("Fraud", 5.0), ("Fine", 1.0)))
    {'Fraud': 0.19999999999999996, 'Fine': 0.0}
    """
    if not losses:
        return probabilities
    missed = {label: loss * probabilities[label] for label, loss in losses}
    total = sum(missed.values())
    return {label: 1.0 - (total - missed[label]) for label in probabilities}


def arms_in_plan(labels: Sequence[str], losses: LabelLosses, nodes: int = MOST_NODES) -> int:
    """The most arms that a plan can hold: fewer where labels are not worth the same."""
    if not losses or len(labels) == 2:
        return most_arms(len(labels), nodes)
    sizes = _classes(labels, losses)[1]
    ways, arms = {(0,) * len(sizes): 1}, 0
    while True:
        further: dict[tuple[int, ...], int] = {}
        for used, count in ways.items():
            further[used] = further.get(used, 0) + count * (1 + sum(used))
            for place, size in enumerate(sizes):
                if used[place] < size:
                    more = (*used[:place], used[place] + 1, *used[place + 1 :])
                    further[more] = further.get(more, 0) + count
        if arms and sum(further.values()) > nodes:
            return arms
        ways, arms = further, arms + 1


def plan_node(
    beliefs: Beliefs, row: tuple[int, ...], named: Sequence[str], labels: Sequence[str], losses: LabelLosses
) -> int:
    """The node of weighed beliefs for a row of votes, whose numbers are the labels ``named``."""
    if not losses or len(labels) == 2:
        return beliefs.lattice.node_of[row]
    class_of, sizes, _ = _classes(labels, losses)
    split = _split_lattice(beliefs.lattice.rows.shape[1], len(labels), sizes)
    return split.node_of[row, tuple([class_of[label] for label in named])]


@lru_cache(maxsize=32)
def weighed(beliefs: Beliefs, labels: tuple[str, ...], losses: LabelLosses) -> Beliefs:
    """The beliefs with what missing each label loses, for plans; unchanged without losses."""
    if not losses:
        return beliefs
    loss_of = dict(losses)
    if len(labels) == 2:
        each = np.array([loss_of[label] for label in sorted(labels)])
        none = np.zeros(len(beliefs.right))
        return replace(beliefs, misses=Misses(np.tile(each, (len(none), 1)), none, none))
    _, sizes, worths = _classes(labels, losses)
    split = _split_lattice(beliefs.lattice.rows.shape[1], len(labels), sizes)
    right = beliefs.right[split.origin]
    each = np.array([*worths, 0.0])  # the last one belongs to numbers without a label, −1
    left = np.array(sizes) - split.used
    without = np.maximum(left.sum(axis=1), 1)
    chance = np.maximum(1.0 - right.sum(axis=1), 0.0) / without
    most = np.where(left > 0, each[:-1], 0.0).max(axis=1)
    misses = Misses(each[split.classes], chance * (left @ each[:-1]), chance * most)
    votes = tuple(
        tuple(
            split.votes(step, by_number, base.nodes)
            for step, base, by_number in zip(steps, alike, level, strict=True)
        )
        for steps, alike, level in zip(split.lattice.steps, beliefs.lattice.steps, beliefs.votes, strict=True)
    )
    return Beliefs(split.lattice, right, votes, misses=misses)


@lru_cache(maxsize=64)
def _classes(
    labels: Sequence[str], losses: LabelLosses
) -> tuple[dict[str, int], tuple[int, ...], tuple[float, ...]]:
    """The class of each label, and the size and the loss of each class: labels of equal worth are alike."""
    loss_of = dict(losses)
    worths = tuple(sorted({loss_of[label] for label in labels}))
    class_of = {label: worths.index(loss_of[label]) for label in labels}
    return class_of, tuple([list(class_of.values()).count(place) for place in range(len(worths))]), worths


@dataclass(frozen=True, eq=False)
class _SplitLattice:
    """The lattice of labels in C classes.

    Attributes:
        lattice: its nodes and steps. The votes of a step are G numbers that are known, and then a new label
            of each class.
        origin: the node of the lattice of labels alike, shape (N,).
        classes: the class of each number's label, −1 for none, shape (N, G).
        used: how many labels of each class have a vote, shape (N, C).
        sizes: how many labels each class has, C of them.
    """

    lattice: Lattice
    origin: NDArray[np.int64]
    classes: NDArray[np.int64]
    used: NDArray[np.int64]
    sizes: tuple[int, ...]

    @cached_property
    def node_of(self) -> dict[tuple[tuple[int, ...], tuple[int, ...]], int]:
        """(vote row, the classes of its labels) → node."""
        rows, classes = self.lattice.rows.tolist(), self.classes.tolist()
        return {
            (tuple(row), tuple([place for place in of if place >= 0])): node
            for node, (row, of) in enumerate(zip(rows, classes, strict=True))
        }

    def votes(self, step: Step, alike: Array, nodes: NDArray[np.int64]) -> Array:
        """The probability of each vote of a step, from those where labels are alike, at its ``nodes``."""
        alike = alike[:, np.searchsorted(nodes, self.origin[step.nodes])]
        used, count = self.used[step.nodes], self.used[step.nodes].sum(axis=1)
        left = np.array(self.sizes) - used
        known = np.where(np.arange(len(alike))[:, None] < count, alike, 0.0)
        new = alike[np.minimum(count, len(alike) - 1), np.arange(len(count))]
        return np.asarray(np.concatenate([known, new * left.T / np.maximum(left.sum(axis=1), 1)]))


@lru_cache(maxsize=8)
def _split_lattice(arms: int, labels: int, sizes: tuple[int, ...]) -> _SplitLattice:
    alike = vote_lattice(arms, labels)
    numbers, classes = alike.numbers, len(sizes)
    rows: Rows = np.zeros((1, 0), dtype=np.int64)
    of: NDArray[np.int64] = np.full((1, numbers), -1, dtype=np.int64)
    for _ in range(arms):
        parts = [(np.full(len(rows), True), UNASKED, -1)]
        count = rows.max(axis=1, initial=-1) + 1
        parts += [(number < count, number, -1) for number in range(numbers)]
        parts += [
            ((count == number) & (_used(of, classes)[:, place] < sizes[place]), number, place)
            for number in range(numbers)
            for place in range(classes)
        ]
        grown = [_with_vote(rows[possible], of[possible], number, place) for possible, number, place in parts]
        rows, of = np.concatenate([row for row, _ in grown]), np.concatenate([one for _, one in grown])
    codes = _code(rows, of, classes)
    ascending = np.argsort(codes)
    rows, of, codes = rows[ascending], of[ascending], codes[ascending]
    size = (rows >= 0).sum(axis=1)
    steps = tuple(
        tuple(
            _step(rows, of, codes, np.flatnonzero((size == level) & (rows[:, arm] < 0)), arm, sizes)
            for arm in range(arms)
        )
        for level in reversed(range(arms))
    )
    after = np.full((arms, numbers + classes, len(rows)), -1, dtype=np.int64)
    for level in steps:
        for step in level:
            after[step.arm][:, step.nodes] = step.following
    lattice = replace(alike, rows=rows, steps=steps, after=after)
    return _SplitLattice(lattice, alike.find(rows), of, _used(of, classes), sizes)


def _with_vote(rows: Rows, of: NDArray[np.int64], number: int, place: int) -> tuple[Rows, NDArray[np.int64]]:
    """The rows with one more vote for a number; its label is a new one of a class unless ``place`` is −1."""
    of = of.copy()
    if place >= 0:
        of[:, number] = place
    return np.column_stack((rows, np.full(len(rows), number))), of


def _used(of: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    return np.asarray((of[:, :, None] == np.arange(classes)).sum(axis=1))


def _code(rows: Rows, of: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """A number of each row and of the classes of its labels."""
    numbers = of.shape[1]
    votes = np.where(rows < 0, 0, rows + 1) @ ((numbers + 1) ** np.arange(rows.shape[1], dtype=np.int64))
    named = (of + 1) @ ((classes + 1) ** np.arange(numbers, dtype=np.int64))
    return np.asarray(votes * (classes + 1) ** numbers + named, dtype=np.int64)


def _step(  # noqa: PLR0917 - the parts of a lattice
    rows: Rows,
    of: NDArray[np.int64],
    codes: NDArray[np.int64],
    nodes: NDArray[np.int64],
    arm: int,
    sizes: tuple[int, ...],
) -> Step:
    """Asking one arm: a vote for a number that is known, or for a new label of a class."""
    numbers, classes = of.shape[1], len(sizes)
    count = np.maximum(rows[nodes].max(axis=1, initial=-1) + 1, 0)
    used = _used(of[nodes], classes)
    following = np.full((numbers + classes, len(nodes)), -1, dtype=np.int64)
    for vote in range(numbers + classes):
        place = vote - numbers
        possible = np.flatnonzero(vote < count if place < 0 else used[:, max(place, 0)] < sizes[place])
        votes, named = rows[nodes[possible]].copy(), of[nodes[possible]].copy()
        number = np.full(len(possible), vote) if place < 0 else count[possible]
        votes[:, arm] = number
        if place >= 0:
            named[np.arange(len(possible)), number] = place
        following[vote, possible] = np.searchsorted(codes, _code(*_renumbered(votes, named), classes))
    return Step(arm, nodes, following, (following >= 0).astype(np.float64))


def _renumbered(rows: Rows, of: NDArray[np.int64]) -> tuple[Rows, NDArray[np.int64]]:
    """Number labels by first appearance, and let their classes follow."""
    numbered, moved = renumber(rows), np.full_like(of, -1)
    lines = np.arange(len(rows))
    for column, number in zip(rows.T, numbered.T, strict=True):
        voted = column >= 0
        moved[lines[voted], number[voted]] = of[lines[voted], column[voted]]
    return numbered, moved
