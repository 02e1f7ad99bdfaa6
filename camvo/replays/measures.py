"""How good a replay was: how often right, how well its scores say so, and how sure the mean over runs is.

Labels and truth are positions in the label set, shape (n,). A truth of −1 is unknown: such items count in
:func:`agreement` alone. A label of −1 is no answer: it is wrong, it is no prediction of any label, it has no
part in :func:`calibration_error`, and :func:`risk_coverage` takes it for less certain than any answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from camvo.numerics.tolerances import TIE
from camvo.scores.reliability import BINS, reliability, risk_curve
from camvo.typing import Array

CONFIDENCE = 0.95
"""How often :func:`mean_interval` is to cover the mean."""


@dataclass(frozen=True, slots=True)
class LabelQuality:
    """How well one label was found; ``None`` where nothing is divided by nothing.

    Attributes:
        precision: the share of its predictions that are right.
        recall: the share of its items that were found.
        f1: 2·TP / (2·TP + FP + FN), the harmonic mean of both.
        support: items that are truly of this label.
    """

    precision: float | None
    recall: float | None
    f1: float | None
    support: int


def accuracy(labels: NDArray[np.int64], truth: NDArray[np.int64]) -> float | None:
    """The share of right labels; ``None`` where no truth is known."""
    known = truth >= 0
    return float(np.mean(labels[known] == truth[known])) if known.any() else None


def calibration_error(
    labels: NDArray[np.int64], scores: Array, truth: NDArray[np.int64], bins: int = BINS
) -> float | None:
    """ECE: |accuracy − mean score| in bins of equal width, weighted by their items.

    A score on the edge of two bins belongs to the lower one. ``None`` without an answer whose truth is known.
    """
    drawn = reliability(labels, scores, truth, bins)
    items = int(drawn.counts.sum())
    if not items:
        return None
    return float(np.nansum(drawn.counts * np.abs(drawn.accuracy - drawn.score)) / items)


def risk_coverage(labels: NDArray[np.int64], scores: Array, truth: NDArray[np.int64]) -> float | None:
    """AURC: the mean over m = 1 … n of the error rate among the m items with the highest scores.

    Equal scores are taken in every order at once, so that the measure does not depend on the items' order.
    ``None`` where no truth is known.
    """
    errors = risk_curve(labels, scores, truth)
    return float(np.mean(errors)) if len(errors) else None


def per_label(labels: NDArray[np.int64], truth: NDArray[np.int64], count: int) -> tuple[LabelQuality, ...]:
    """The quality of each of ``count`` labels."""
    known = truth >= 0
    said, true = labels[known], truth[known]
    found = np.bincount(true[said == true], minlength=count)
    predicted = np.bincount(said[said >= 0], minlength=count)
    support = np.bincount(true, minlength=count)
    return tuple(
        LabelQuality(_ratio(hits, named), _ratio(hits, there), _ratio(2 * hits, named + there), int(there))
        for hits, named, there in zip(found, predicted, support, strict=True)
    )


def agreement(labels: NDArray[np.int64], full: NDArray[np.int64]) -> float | None:
    """The share of the items that the full vote decides on which the label is the full vote's."""
    decided = full >= 0
    return float(np.mean(labels[decided] == full[decided])) if decided.any() else None


def model_accuracy(votes: NDArray[np.int64], truth: NDArray[np.int64]) -> Array:
    """Each model's share of right votes among those it gave on items of known truth; shape (K,).

    NaN for a model without such a vote.
    """
    known = truth >= 0
    cast = votes[known] >= 0
    right = (votes[known] == truth[known, None]).sum(axis=0)
    with np.errstate(invalid="ignore"):
        return np.asarray(right / cast.sum(axis=0), dtype=np.float64)


def full_vote(votes: NDArray[np.int64], truth: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The vote of all models, each with the weight of its true accuracy on these items.

    This is the paper's majority vote, the measure of what asking everyone is worth; it looks at the truth,
    so no policy can be it. Where no truth is known the votes weigh the same.

    Args:
        votes: positions in the label set, shape (n, K); −1 where a model gave none.
        truth: shape (n,).
        count: M, the size of the label set.

    Returns:
        The labels, shape (n,); −1 where nobody voted.
    """
    return weighted_labels(votes, full_weights(votes, truth), count)


def full_weights(votes: NDArray[np.int64], truth: NDArray[np.int64]) -> Array:
    """The weights of :func:`full_vote`, shape (K,)."""
    if not (truth >= 0).any():
        return np.ones(votes.shape[1])
    return np.nan_to_num(model_accuracy(votes, truth), nan=0.0)


def weighted_labels(votes: NDArray[np.int64], weights: Array, count: int) -> NDArray[np.int64]:
    """The label with the largest sum of weights on each item, shape (n,); −1 where nobody voted.

    Sums that differ by less than 1e-12 are tied, and the label that comes first wins, as in
    :func:`camvo.votes.labels.weighted_vote` at equal L.

    Args:
        votes: positions in the label set, shape (n, K); −1 where a model gave none.
        weights: of each model's vote, shape (K,).
        count: M, the size of the label set.
    """
    sums = np.full((len(votes), count), -np.inf)
    for model, weight in enumerate(weights):
        (voted,) = np.nonzero(votes[:, model] >= 0)
        label = votes[voted, model]
        sums[voted, label] = np.maximum(sums[voted, label], 0.0) + weight
    top = sums.max(axis=1, keepdims=True)
    winners = np.argmax(sums >= top - TIE, axis=1)
    return np.where(np.isfinite(top[:, 0]), winners, -1)


def mean_interval(values: Sequence[float]) -> tuple[float, tuple[float, float] | None]:
    """The mean of some runs, with its 95% interval by Student's t; a single run has none."""
    mean, n = float(np.mean(values)), len(values)
    if n < 2:
        return mean, None
    half = float(stdtrit(n - 1, (1.0 + CONFIDENCE) / 2.0) * np.std(values, ddof=1) / np.sqrt(n))
    return mean, (mean - half, mean + half)


def _ratio(part: int, whole: int) -> float | None:
    return float(part / whole) if whole else None
