"""How probably, or certainly, the label of a few votes is still the label once all arms have voted.

That is what a plan promises where it stops. It follows from the probabilities of the votes to come, so
exploration can test it without any truth.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from camvo.joint.beliefs import Beliefs
from camvo.joint.lattice import Lattice
from camvo.typing import Array


@lru_cache(maxsize=16)
def kept_labels(beliefs: Beliefs) -> Array:
    """The probability, at each node, that its most probable label is that of all votes, shape (N,).

    Computed from the nodes where all arms have voted back to the node without votes, asking the missing arms
    in the order of their positions. The node without votes has no label, and its value says nothing.
    """
    lattice = beliefs.lattice
    leads = beliefs.right.argmax(axis=1)
    final = np.eye(lattice.numbers)[leads]
    voter = _first_voters(lattice)
    for nodes, level, level_votes in zip(lattice.levels, lattice.steps, beliefs.votes, strict=True):
        known = np.full(len(final), True)
        known[nodes] = False
        for step, votes in zip(level, level_votes, strict=True):
            unknown = ~known[step.nodes]
            at, after = step.nodes[unknown], np.maximum(step.following[:, unknown], 0)
            for number in range(lattice.numbers):
                final[at, number] = (
                    votes[:, unknown] * final[after, _renamed(lattice, voter, at, number, after)]
                ).sum(axis=0)
            known[at] = True
    return np.asarray(np.clip(final[np.arange(len(final)), leads], 0.0, 1.0), dtype=np.float64)


@lru_cache(maxsize=16)
def certain_labels(beliefs: Beliefs) -> NDArray[np.bool_]:
    """Whether no further votes can change the most probable label of each node, shape (N,).

    Whichever arms vote, and whatever they say: some may give no vote, so every set of further votes counts.
    """
    lattice = beliefs.lattice
    leads = beliefs.right.argmax(axis=1)
    stays = np.eye(lattice.numbers, dtype=np.bool_)[leads]
    voter = _first_voters(lattice)
    for level in lattice.steps:
        for step in level:
            possible, after = step.following >= 0, np.maximum(step.following, 0)
            for number in range(lattice.numbers):
                kept = stays[after, _renamed(lattice, voter, step.nodes, number, after)]
                stays[step.nodes, number] &= (kept | ~possible).all(axis=0)
    voted = (lattice.rows >= 0).any(axis=1)
    return np.asarray(stays[np.arange(len(leads)), leads] & voted)


def _first_voters(lattice: Lattice) -> NDArray[np.int64]:
    """The position of the first arm that voted for each number at each node, shape (N, G)."""
    return np.stack([(lattice.rows == number).argmax(axis=1) for number in range(lattice.numbers)], axis=1)


def _renamed(
    lattice: Lattice, voter: NDArray[np.int64], at: NDArray[np.int64], number: int, after: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The number, at the nodes ``after``, of the label that has ``number`` at the nodes ``at``.

    Numbers follow the arms' positions, so they change when an arm votes late. A number that no arm has voted
    for at a node gives any number there.
    """
    if lattice.named:
        return np.full(after.shape, number)
    return np.asarray(np.maximum(lattice.rows[after, voter[at, number]], 0), dtype=np.int64)
