"""Measures of a replay: accuracy, the quality of its scores, and the interval of a mean over runs.

Labels and truth are positions in the label set, shape (n,). Two values stand for missing ones:

- A truth of −1 is unknown. Only :func:`full_vote_agreement` counts such items.
- A label of −1 is no answer. It is wrong and predicts no label. :func:`calibration_error` ignores it, and
  :func:`risk_coverage_area` ranks it below every answer.
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
"""The confidence level of :func:`mean_interval`."""


@dataclass(frozen=True, slots=True)
class LabelQuality:
    """Precision, recall and F1 of one label; a ratio whose denominator is 0 is ``None``.

    Attributes:
        precision: the share of its predictions that are right.
        recall: the share of its items for which it was predicted.
        f1: 2·TP / (2·TP + FP + FN), the harmonic mean of precision and recall.
        support: the number of items whose truth is this label.
    """

    precision: float | None
    recall: float | None
    f1: float | None
    support: int


def accuracy(labels: NDArray[np.int64], truth: NDArray[np.int64]) -> float | None:
    """Compute the share of right labels, or ``None`` if no truth is known."""
    known = truth >= 0
    return float(np.mean(labels[known] == truth[known])) if known.any() else None


def calibration_error(
    labels: NDArray[np.int64], scores: Array, truth: NDArray[np.int64], bins: int = BINS
) -> float | None:
    """Compute the ECE: the mean of |accuracy − mean score| over bins, weighted by their numbers of items.

    The bins divide [0, 1] into equal parts. A score on the edge of two bins belongs to the lower one.

    Args:
        labels: label positions, shape (n,).
        scores: in [0, 1], shape (n,).
        truth: label positions, shape (n,).
        bins: the number of bins.

    Returns:
        The ECE in [0, 1], or ``None`` if no item has both an answer and a known truth.
    """
    diagram = reliability(labels, scores, truth, bins)
    items = int(diagram.counts.sum())
    if not items:
        return None
    return float(np.nansum(diagram.counts * np.abs(diagram.accuracy - diagram.score)) / items)


def risk_coverage_area(labels: NDArray[np.int64], scores: Array, truth: NDArray[np.int64]) -> float | None:
    """Compute the AURC: the mean over m = 1 … n of the error rate of the m items with the highest scores.

    Items with equal scores are averaged over all their orders, so the order of the items does not matter.

    Args:
        labels: label positions, shape (n,).
        scores: in [0, 1], shape (n,).
        truth: label positions, shape (n,).

    Returns:
        The area in [0, 1], or ``None`` if no truth is known.
    """
    errors = risk_curve(labels, scores, truth)
    return float(np.mean(errors)) if len(errors) else None


def quality_by_label(
    labels: NDArray[np.int64], truth: NDArray[np.int64], count: int
) -> tuple[LabelQuality, ...]:
    """Compute precision, recall and F1 of each label.

    Args:
        labels: label positions, shape (n,).
        truth: label positions, shape (n,).
        count: M, the number of labels.

    Returns:
        The quality of each label, in the order of the label set.
    """
    known = truth >= 0
    predictions, right_labels = labels[known], truth[known]
    true_positives = np.bincount(right_labels[predictions == right_labels], minlength=count)
    predicted = np.bincount(predictions[predictions >= 0], minlength=count)
    support = np.bincount(right_labels, minlength=count)
    return tuple(
        LabelQuality(_ratio(tp, named), _ratio(tp, true), _ratio(2 * tp, named + true), int(true))
        for tp, named, true in zip(true_positives, predicted, support, strict=True)
    )


def full_vote_agreement(labels: NDArray[np.int64], full: NDArray[np.int64]) -> float | None:
    """Compute the share of labels that equal the label of the full vote.

    Args:
        labels: label positions, shape (n,).
        full: the labels of :func:`full_vote`, shape (n,). Items with −1 are ignored.

    Returns:
        The share in [0, 1], or ``None`` if the full vote decides no item.
    """
    decided = full >= 0
    return float(np.mean(labels[decided] == full[decided])) if decided.any() else None


def model_accuracy(votes: NDArray[np.int64], truth: NDArray[np.int64]) -> Array:
    """Compute each model's share of right votes among its votes on items with known truth.

    Args:
        votes: label positions, shape (n, K); −1 where a model gave no vote.
        truth: label positions, shape (n,).

    Returns:
        The accuracies, shape (K,); NaN for a model that has no such vote.
    """
    known = truth >= 0
    cast = votes[known] >= 0
    right = (votes[known] == truth[known, None]).sum(axis=0)
    with np.errstate(invalid="ignore"):
        return np.asarray(right / cast.sum(axis=0), dtype=np.float64)


def full_vote(votes: NDArray[np.int64], truth: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Compute the vote of all models, each weighted by its true accuracy on these items.

    This is the paper's majority vote, the reference for the accuracy of asking every model. No policy can use
    it, because it needs the truth. If no truth is known, all weights are equal.

    Args:
        votes: label positions, shape (n, K); −1 where a model gave no vote.
        truth: label positions, shape (n,).
        count: M, the number of labels.

    Returns:
        Label positions, shape (n,); −1 where no model voted.
    """
    return weighted_labels(votes, full_vote_weights(votes, truth), count)


def full_vote_weights(votes: NDArray[np.int64], truth: NDArray[np.int64]) -> Array:
    """Compute the weights of :func:`full_vote`, shape (K,): 0 for a model without a vote of known truth."""
    if not (truth >= 0).any():
        return np.ones(votes.shape[1])
    return np.nan_to_num(model_accuracy(votes, truth), nan=0.0)


def weighted_labels(votes: NDArray[np.int64], weights: Array, count: int) -> NDArray[np.int64]:
    """Find the label with the largest sum of weights on each item.

    Sums that differ by less than 1e-12 are tied, and the label that comes first wins, as in
    :func:`camvo.votes.labels.weighted_vote` with equal tie-breakers.

    Args:
        votes: label positions, shape (n, K); −1 where a model gave no vote.
        weights: the weight of each model's vote, shape (K,).
        count: M, the number of labels.

    Returns:
        Label positions, shape (n,); −1 where no model voted.
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
    """Compute the mean over runs and its 95% interval by Student's t.

    Args:
        values: one value for each run, at least one.

    Returns:
        The mean, and the lower and upper end of its interval, or ``None`` for a single run.
    """
    mean, n = float(np.mean(values)), len(values)
    if n < 2:
        return mean, None
    half = float(stdtrit(n - 1, (1.0 + CONFIDENCE) / 2.0) * np.std(values, ddof=1) / np.sqrt(n))
    return mean, (mean - half, mean + half)


def _ratio(part: int, whole: int) -> float | None:
    return float(part / whole) if whole else None
