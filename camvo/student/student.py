"""The student: a free arm that learns from the labels of past texts.

A ridge regression on hashed character n-grams gives each label a score. The lead of the first label over the
second measures how sure the student is. The lead is calibrated on texts that the student has not seen: every
fifth text is held out, and a logistic curve of the lead is fitted to whether the student was right about it.
Then the student learns from all texts. The penalty of the regression is the one with which the student is
right about more of the texts held out.

A student that does not expect to be right gives no vote. It is therefore silent if it has few texts, or if
the answer does not depend on the topic, as with the letters of multiple-choice questions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit

from camvo.student.taught_texts import FEATURES, Lessons, Ngrams, numbers_in
from camvo.typing import Array

_STEPS: Final = 25
_CLOSE: Final = 0.01
"""The relative residual at which to stop. More digits do not change which label comes first."""


def _fit_ridge(design: Any, targets: Array, ridge: float, start: Array | None = None) -> Array:
    """Minimise ‖design · W − targets‖² + ridge · ‖W‖² as far as 25 steps go.

    The columns are independent problems with one matrix, so each has its own step lengths.
    """
    transposed = design.T.tocsr()
    residual = np.asarray(transposed @ targets)
    goal = _CLOSE**2 * (residual**2).sum(axis=0)
    weights = np.zeros_like(residual) if start is None else start.copy()
    if start is not None:
        residual -= transposed @ (design @ start) + ridge * start
    direction, size = residual.copy(), (residual**2).sum(axis=0)
    for _ in range(_STEPS):
        if np.all(size <= goal):
            break
        image = transposed @ (design @ direction) + ridge * direction
        curvature = (direction * image).sum(axis=0)
        step = np.divide(size, curvature, out=np.zeros_like(size), where=curvature > 0.0)
        weights += step * direction
        residual -= step * image
        following = (residual**2).sum(axis=0)
        direction = residual + direction * np.divide(
            following, size, out=np.zeros_like(size), where=size > 0.0
        )
        size = following
    return np.asarray(weights)


LEAST_TEXTS: Final = 300
"""The fewest texts that make a student."""

_Numbers: TypeAlias = NDArray[np.uint16]
"""The features of one text. They are unpacked once for all fits, in 16 bits: texts have hundreds of them."""

_FOLDS: Final = 5
_RIDGES: Final = (2.0, 0.5)
"""The penalties to choose from: the larger one for noisy labels, the smaller one for many labels."""

_LEAST_PROBABILITY: Final = 0.5


@dataclass(frozen=True, slots=True)
class StudentVote:
    """The student's vote on a text.

    Attributes:
        label: the label.
        confidence: the probability in [0, 1] that it is the label that will come out.
    """

    label: str
    confidence: float


@dataclass(frozen=True, slots=True, eq=False)
class Student:
    """A student that has learnt.

    Attributes:
        labels: the labels that it has seen, M ≥ 2.
        rarity: how rare each feature is, log((1 + n) / (1 + texts with it)) + 1, shape (F,).
        weights: the weight of each feature for each label, shape (F, M).
        shares: the share of each label among the texts, shape (M,).
        line: (a, b): σ(a + b·lead) is the probability that the first label is right.
    """

    labels: tuple[str, ...]
    rarity: Array
    weights: Array
    shares: Array
    line: tuple[float, float]

    def vote(self, ngrams: Ngrams) -> StudentVote | None:
        """What the student says of a text; ``None`` if it does not expect to be right."""
        numbers = numbers_in(ngrams)
        scores = _unit(self.rarity[numbers]) @ self.weights[numbers] + self.shares
        (first,), (lead,) = _leaders(scores[None])
        confidence = float(expit(self.line[0] + self.line[1] * lead))
        return StudentVote(self.labels[first], confidence) if confidence >= _LEAST_PROBABILITY else None


@lru_cache(maxsize=8)
def teach(lessons: Lessons) -> Student | None:
    """Teach a student; ``None`` with too few texts or labels. Cached by the identity of ``lessons``."""
    counts = Counter(text.label for text in lessons.texts)
    labels = tuple(sorted(counts))
    if len(lessons.texts) < LEAST_TEXTS or len(labels) < 2:
        return None
    texts = [numbers_in(text.ngrams).astype(np.uint16) for text in lessons.texts]
    positions = {label: position for position, label in enumerate(labels)}
    truth = np.array([positions[text.label] for text in lessons.texts], dtype=np.int64)
    targets = np.eye(len(labels))[truth]
    held = np.arange(len(texts)) % _FOLDS == _FOLDS - 1
    learnt, tested = list(compress(texts, ~held)), list(compress(texts, held))
    fit: _Fit | None = None
    trials: list[tuple[int, float, tuple[float, float]]] = []
    for ridge in _RIDGES:
        fit = _fit(learnt, targets[~held], ridge, fit)
        first, lead = fit.leaders_of(tested)
        right = first == truth[held]
        trials.append((int(right.sum()), ridge, _line(lead, right)))
    _, ridge, line = max(trials)
    final = _fit(texts, targets, ridge, fit)
    return Student(labels, final.rarity, final.weights, final.shares, line)


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    rarity: Array
    weights: Array
    shares: Array

    def leaders_of(self, texts: Sequence[_Numbers]) -> tuple[NDArray[np.int64], Array]:
        return _leaders(np.asarray(_design(texts, self.rarity) @ self.weights) + self.shares)


def _fit(texts: Sequence[_Numbers], targets: Array, ridge: float, near: _Fit | None) -> _Fit:
    """Fit the ridge regression of the labels, one-hot in ``targets``, around their shares.

    ``near`` is a fit of nearly the same problem: starting there saves time.
    """
    frequency = np.bincount(np.concatenate(texts), minlength=FEATURES)
    rarity = np.log((1.0 + len(texts)) / (1.0 + frequency)) + 1.0
    shares = targets.mean(axis=0)
    start = None if near is None else near.weights
    return _Fit(rarity, _fit_ridge(_design(texts, rarity), targets - shares, ridge, start), shares)


def _design(rows: Sequence[_Numbers], rarity: Array) -> Any:
    """The texts' features weighted by rarity, each text of length 1; sparse, shape (n, F)."""
    values = [_unit(rarity[row]) for row in rows]
    ends = np.cumsum([0, *map(len, rows)])
    empty: list[_Numbers] = [np.zeros(0, dtype=np.uint16)]
    columns = np.concatenate(rows or empty)
    return sparse.csr_matrix((np.concatenate(values or empty), columns, ends), (len(rows), len(rarity)))


def _unit(values: Array) -> Array:
    """The vector scaled to length 1; empty if it is empty."""
    return values / math.sqrt(float(values @ values) or 1.0)


def _leaders(scores: Array) -> tuple[NDArray[np.int64], Array]:
    """The first of M ≥ 2 labels by score, and its lead over the second, from scores of shape (n, M)."""
    second, first = np.partition(scores, -2, axis=1)[:, -2:].T
    return scores.argmax(axis=1), np.asarray(first - second)


def _line(lead: Array, right: NDArray[np.bool_]) -> tuple[float, float]:
    """(a, b) of a logistic regression of being right on the lead, with a weak prior at (−1, 4) and b ≥ 0."""

    def loss(line: Array) -> tuple[float, Array]:
        z, from_prior = line[0] + line[1] * lead, (line - [-1.0, 4.0]) / [4.0, 16.0]
        residual = expit(z) - right
        value = np.logaddexp(0.0, z).sum() - right @ z + 0.5 * (line - [-1.0, 4.0]) @ from_prior
        return float(value), np.array([residual.sum(), residual @ lead]) + from_prior

    a, b = minimize(loss, [-1.0, 4.0], jac=True, method="L-BFGS-B", bounds=[(None, None), (0.0, None)]).x
    return float(a), float(b)
