"""Conventions: people's label, given what the votes jointly say, is one matrix for all models.

Where all models say "Partially" and people say "Yes", no weight of a model helps, and people's label may be
one that nobody voted for. Human terms (:mod:`camvo.joint.human_terms`) only move labels that got a vote. With
z the label by the model of votes and z* that of people, P(z* | votes) = Σ_z P(z | votes)^e Q[z, z*].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from camvo.numerics.small import EPSILON
from camvo.typing import Array

_Numbers = NDArray[np.int64]

_OWN: Final = (3.0, 10.0, 30.0)
"""How many pseudo-items say that people use a label as the models do; one more is spread over all labels."""
_EXPONENTS: Final = (0.5, 1.0)
_STEPS: Final = 30
_FOLDS: Final = 5

_CHANCE: Final = 0.2
"""How improbable the lead in right labels must be, if conventions changed nothing."""
_ERRORS: Final = 1.0
"""By how many standard errors conventions must predict held-out labels better."""


@dataclass(frozen=True, slots=True, eq=False)
class Conventions:
    """What people say where the votes say a label.

    Attributes:
        labels: the label set.
        matrix: Q, shape (M, M); row z is the distribution of people's label.
        exponent: e.
        count: the number of human labels.
    """

    labels: tuple[str, ...]
    matrix: Array
    exponent: float
    count: int

    def said(self, probabilities: Mapping[str, float]) -> dict[str, float]:
        """The probability that people say each label, by that of each label by the votes."""
        row = np.array([[probabilities[label] for label in self.labels]])
        said = _said(_sharpened(row, self.exponent), self.matrix)[0]
        return dict(zip(self.labels, said.tolist(), strict=True))

    def describe(self) -> dict[str, Any]:
        """The labels for which people mostly say another one, as plain JSON."""
        most = self.matrix.argmax(axis=1).tolist()
        named = zip(self.labels, most, strict=True)
        others = {label: self.labels[at] for label, at in named if self.labels[at] != label}
        return {"people_say": others, "exponent": self.exponent, "count": self.count}

    @classmethod
    def fit(
        cls,
        labels: tuple[str, ...],
        right: Array,
        truth: _Numbers,
        rival: Callable[[NDArray[np.bool_]], Array],
        sure: NDArray[np.bool_],
    ) -> Conventions | None:
        """Fit the matrix to n human labels; ``None`` unless held-out labels prove it.

        It must be right more often and predict better than the rival. If people labelled fewer sure tasks
        than others, it must be right more often on the sure ones too: labels of doubtful tasks alone do not
        show what people say where the votes are sure.

        ``right`` has the probability of each label by the votes, shape (n, M), and ``truth`` the position of
        each human label. ``rival`` has the same of the tasks of a mask, by human terms that were fitted to
        the other tasks. ``sure`` says whether the votes are as sure as on half of all tasks.
        """
        if len(truth) < 2 * _FOLDS:
            return None
        exponent, own = max(
            product(_EXPONENTS, _OWN), key=lambda way: _logs(_held_out(right, truth, *way), truth).sum()
        )
        converted = _held_out(right, truth, exponent, own)
        # The human terms take a second, so they are fitted only if conventions are better than the votes.
        if not _more_often_right(truth, right, converted, sure):
            return None
        theirs = np.empty_like(right)
        for held in _folds(len(truth)):
            theirs[held] = rival(held)
        gain = _logs(converted, truth) - _logs(theirs, truth)
        better = gain.sum() > _ERRORS * np.sqrt(len(gain)) * gain.std(ddof=1)
        if not better or not _more_often_right(truth, theirs, converted, sure):
            return None
        matrix = _matrix(_sharpened(right, exponent), truth, own)
        return cls(labels, matrix, exponent, len(truth))


def _folds(count: int) -> list[NDArray[np.bool_]]:
    return [np.arange(count) % _FOLDS == fold for fold in range(_FOLDS)]


def _sharpened(right: Array, exponent: float) -> Array:
    power = right**exponent
    return np.asarray(power / power.sum(axis=1, keepdims=True), dtype=np.float64)


def _said(right: Array, matrix: Array) -> Array:
    return np.asarray(right @ matrix, dtype=np.float64)


def _matrix(right: Array, truth: _Numbers, own: float) -> Array:
    """Q by expectation maximisation: the label by the votes is latent."""
    labels = right.shape[1]
    people = np.eye(labels)[truth]
    spread = (people.sum(axis=0) + 1.0) / (len(truth) + labels)
    prior = own * np.eye(labels) + spread
    matrix = prior / prior.sum(axis=1, keepdims=True)
    for _ in range(_STEPS):
        latent = right * matrix[:, truth].T
        latent /= np.maximum(latent.sum(axis=1, keepdims=True), EPSILON)
        counts = prior + latent.T @ people
        matrix = counts / counts.sum(axis=1, keepdims=True)
    return np.asarray(matrix, dtype=np.float64)


def _held_out(right: Array, truth: _Numbers, exponent: float, own: float) -> Array:
    """The probability of each label for each task by a matrix fitted to the other folds, shape (n, M)."""
    sharpened, out = _sharpened(right, exponent), np.empty_like(right)
    for held in _folds(len(truth)):
        out[held] = _said(sharpened[held], _matrix(sharpened[~held], truth[~held], own))
    return out


def _logs(probabilities: Array, truth: _Numbers) -> Array:
    at = probabilities[np.arange(len(truth)), truth]
    return np.asarray(np.log(np.maximum(at, EPSILON)), dtype=np.float64)


def _more_often_right(truth: _Numbers, ours: Array, theirs: Array, sure: NDArray[np.bool_]) -> bool:
    """Whether the second probabilities lead to more right labels, of all kinds of tasks."""
    first, second = ours.argmax(axis=1), theirs.argmax(axis=1)
    # as many as a random half within a standard error, so that all labels speak of sure tasks as of others
    as_often = sure.sum() >= (len(sure) - np.sqrt(len(sure))) / 2.0
    every = np.full_like(sure, True)
    return all(
        prefers(truth[among], first[among], second[among], _CHANCE)
        for among in ((every,) if as_often else (every, sure))
    )


def prefers(
    truth: _Numbers, ours: Sequence[int] | _Numbers, theirs: Sequence[int] | _Numbers, chance: float
) -> bool:
    """Whether the second labels are right more often than the first, by a sign test at level ``chance``."""
    first, second = np.asarray(ours) == truth, np.asarray(theirs) == truth
    lost, gained = int((first & ~second).sum()), int((second & ~first).sum())
    return gained > lost and float(bdtr(lost, lost + gained, 0.5)) < chance
