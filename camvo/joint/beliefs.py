"""The beliefs at every node of the lattice, which do not depend on prices.

At each node two things are needed: the probability that each label is right, and the probability of each vote
of each arm that has not voted. The model of votes gives both. Both are shrunk towards the rounds that asked
all arms and passed through the node: the model is wrong in details, and many rounds are more reliable than
it. No ground truth is needed: the reference is the probability of each label given the votes of all arms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np

from camvo.joint.lattice import Lattice, Step, count_passing, vote_lattice
from camvo.joint.models import Kinds, VoteModel
from camvo.joint.two_coins import TwoCoins
from camvo.joint.votes import Rows, VoteRows, renumber
from camvo.numerics.small import EPSILON
from camvo.typing import Array

_MODEL_ROUNDS: Final = 30.0
"""How many rounds the model of votes counts as at each node."""

Correction = Callable[[Rows, Array], Array]
"""Correct probabilities, shape (P, G), of vote rows, shape (P, K), by what human labels have taught."""


@dataclass(frozen=True, slots=True, eq=False)
class Misses:
    """What missing each label loses at the N nodes, in right labels.

    Attributes:
        numbers: what missing each number's label loses, shape (N, G); 0 for a number without a label.
        others: the expected loss by the labels without a vote, shape (N,).
        most: the largest part of it by one of these labels, shape (N,).
    """

    numbers: Array
    others: Array
    most: Array


@dataclass(frozen=True, slots=True, eq=False)
class Beliefs:
    """Beliefs at the N nodes of a lattice. Hashed by identity.

    Attributes:
        lattice: the nodes.
        right: the probability that each number's label is right, shape (N, G).
        votes: for each step of the lattice, the probability of each vote, shape (G, n), 0 if impossible.
        losses: what each label costs if another is right, shape (G, G), right labels first; ``None`` if every
            wrong label costs a right one.
        misses: what missing each label loses; ``None`` if all labels are worth the same.
    """

    lattice: Lattice
    right: Array
    votes: tuple[tuple[Array, ...], ...]
    losses: Array | None = None
    misses: Misses | None = None

    @property
    def surest(self) -> Array:
        """The value of the best label: its probability, or 1 − its expected loss, shape (N,)."""
        if self.misses is not None:
            missed = self.misses.numbers * self.right
            total = missed.sum(axis=1) + self.misses.others
            return np.asarray(1.0 - total + np.maximum(missed.max(axis=1), self.misses.most))
        if self.losses is None:
            return np.asarray(self.right.max(axis=1), dtype=np.float64)
        return np.asarray(1.0 - (self.right @ self.losses).min(axis=1), dtype=np.float64)

    @property
    def leads(self) -> Rows:
        """The number of the best label, shape (N,)."""
        if self.misses is not None:
            return np.asarray((self.misses.numbers * self.right).argmax(axis=1), dtype=np.int64)
        best = self.right if self.losses is None else -(self.right @ self.losses)
        return np.asarray(best.argmax(axis=1), dtype=np.int64)


def form_beliefs(
    model: VoteModel,
    rounds: VoteRows,
    labels: int,
    correct: Correction | None = None,
    reference: Callable[[Rows], Array] | None = None,
) -> Beliefs:
    """Combine the model of votes with the rounds that asked all arms.

    ``reference`` is what the votes of a round make probable, shape (P, K) → (P, G); by default what the model
    says of the votes of all arms.
    """
    lattice = vote_lattice(rounds.rows.shape[1], labels)
    right, evidence = model.beliefs(lattice.rows)
    if correct is not None:
        right = correct(lattice.rows, right)
    return _blended(lattice, rounds, right, evidence, reference)


def form_ordered_beliefs(
    lattice: Lattice, rounds: VoteRows, right: Array, evidence: Array, losses: Array
) -> Beliefs:
    """The same for ordered labels, which are the lattice's numbers; ``losses`` as for the scale.

    ``right`` has the probability of each label where all arms have voted, shape (N, M), and ``evidence`` the
    log-probability of the votes.
    """
    return replace(_blended(lattice, rounds, _expected(lattice, right, evidence), evidence), losses=losses)


def _expected(lattice: Lattice, right: Array, evidence: Array) -> Array:
    """What is expected at each node of the probabilities where all arms have voted, shape (N, M)."""
    expected, none = right.copy(), np.zeros(len(right))
    known = np.asarray((lattice.rows >= 0).all(axis=1))
    for level in lattice.steps:
        for step in level:
            unknown = ~known[step.nodes]
            votes = _vote_probabilities(step, evidence, none)[:, unknown]
            after = expected[np.maximum(step.following[:, unknown], 0)]
            expected[step.nodes[unknown]] = (votes[:, :, None] * after).sum(axis=0)
            known[step.nodes] = True
    return expected


def _blended(
    lattice: Lattice,
    rounds: VoteRows,
    right: Array,
    evidence: Array,
    reference: Callable[[Rows], Array] | None = None,
) -> Beliefs:
    """The beliefs of a model, shrunk towards the rounds that asked all arms."""
    seen, weight = _seen(lattice, rounds, right, reference)
    blended = (weight + _MODEL_ROUNDS * right) / (seen + _MODEL_ROUNDS)[:, None]
    votes = tuple(
        tuple(_vote_probabilities(step, evidence, seen) for step in level) for level in lattice.steps
    )
    return Beliefs(lattice, blended, votes)


def believe(
    model: TwoCoins | Kinds,
    lattice: Lattice,
    correct: Correction | None = None,
    counted: Beliefs | None = None,
) -> Beliefs:
    """The beliefs of a model of votes about one task.

    ``counted`` is how many times as probable the counted rounds make each label and vote, of the same
    lattice.
    """
    right, evidence = model.beliefs_at(lattice)
    if correct is not None:
        right = correct(lattice.rows, right)
    if counted is not None:
        none = 1.0 - right.sum(axis=1)
        right = right * counted.right
        right = right / (right.sum(axis=1) + np.maximum(none, 0.0))[:, None]
    likelihood = np.append(np.exp(evidence), 0.0)  # the last one belongs to nodes that cannot follow, −1
    votes: list[tuple[Array, ...]] = []
    for number, level in enumerate(lattice.steps):
        odds = [step.labels * likelihood[step.following] for step in level]
        if counted is not None:
            odds = [chances * times for chances, times in zip(odds, counted.votes[number], strict=True)]
        votes.append(tuple([chances / chances.sum(axis=0) for chances in odds]))
    return Beliefs(lattice, right, tuple(votes))


def counts_over_model(beliefs: Beliefs, alone: Beliefs) -> Beliefs:
    """How many times as probable each label and vote is in ``beliefs`` as in those of a model alone."""
    right = beliefs.right / np.maximum(alone.right, EPSILON)
    votes = tuple(
        tuple(whole / np.maximum(part, EPSILON) for whole, part in zip(*levels, strict=True))
        for levels in zip(beliefs.votes, alone.votes, strict=True)
    )
    return Beliefs(beliefs.lattice, right, votes)


def _vote_probabilities(step: Step, evidence: Array, seen: Array) -> Array:
    """The probability of each vote of one step, shape (G, n)."""
    possible, following = step.following >= 0, np.maximum(step.following, 0)
    gain = evidence[following] - evidence[step.nodes]
    model = np.where(possible, step.labels * np.exp(np.minimum(gain, 0.0)), 0.0)
    model /= model.sum(axis=0)
    counted = np.where(possible, seen[following], 0.0)
    return np.asarray(
        (counted + _MODEL_ROUNDS * model) / (counted.sum(axis=0) + _MODEL_ROUNDS), dtype=np.float64
    )


def _seen(
    lattice: Lattice, rounds: VoteRows, right: Array, reference: Callable[[Rows], Array] | None
) -> tuple[Array, Array]:
    """The rounds through each node, (N,), and their labels' summed probabilities by all votes, (N, G)."""
    counted = rounds.counts > 0.0
    rows, counts = rounds.rows[counted], rounds.counts[counted]
    whole = rows if lattice.named else renumber(rows)
    final = right[lattice.find(whole)] if reference is None else reference(whole)
    return count_passing(lattice, whole, counts, final)


@lru_cache(maxsize=32)
def updated_by_student(beliefs: Beliefs, position: int, log_ratio: float) -> Beliefs:
    """The beliefs once the student has voted, and has said how sure it is.

    Nodes at which it has not voted keep their beliefs about labels. No task reaches them any more.
    """
    number = beliefs.lattice.rows[:, position]
    (voted,) = np.nonzero(number >= 0)
    odds = np.ones_like(beliefs.right)
    odds[voted, number[voted]] = np.exp(log_ratio)
    # How probable this confidence is at each node, relative to an uninformative one.
    likely: Array = 1.0 + (beliefs.right * (odds - 1.0)).sum(axis=1)
    votes = []
    for level, level_votes in zip(beliefs.lattice.steps, beliefs.votes, strict=True):
        chances = [vote * likely[step.following] for step, vote in zip(level, level_votes, strict=True)]
        votes.append(tuple([chance / chance.sum(axis=0) for chance in chances]))
    return Beliefs(beliefs.lattice, beliefs.right * odds / likely[:, None], tuple(votes))
