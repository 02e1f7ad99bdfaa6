"""How reliable scores are: accuracy by bins of the score, and the error rate by coverage.

Labels and truth are positions in the label set, shape (n,). Items with unknown truth (−1) are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from camvo.typing import Array

BINS = 15
"""The number of bins of a reliability diagram and of the ECE."""


@dataclass(frozen=True, slots=True, eq=False)
class Reliability:
    """The data of a reliability diagram: B bins of equal width over the scores in [0, 1].

    Attributes:
        counts: the number of items in each bin, shape (B,).
        score: their mean score, shape (B,); NaN in an empty bin.
        accuracy: the share of right items, shape (B,); NaN in an empty bin.
    """

    counts: NDArray[np.int64]
    score: Array
    accuracy: Array


def reliability(
    labels: NDArray[np.int64], scores: Array, truth: NDArray[np.int64], bins: int = BINS
) -> Reliability:
    """Sort items into the bins of a reliability diagram.

    The ECE is the mean of |accuracy − score| weighted by the counts. A score on the edge of two bins belongs
    to the lower one. Items without an answer (label −1) are ignored.

    Args:
        labels: label positions, shape (n,); −1 for no answer.
        scores: in [0, 1], shape (n,).
        truth: label positions, shape (n,); −1 if unknown.
        bins: B, the number of bins.
    """
    counted = (truth >= 0) & (labels >= 0)
    score, right = scores[counted], labels[counted] == truth[counted]
    bin_of = np.clip(np.ceil(score * bins).astype(np.int64) - 1, 0, bins - 1)
    counts = np.bincount(bin_of, minlength=bins)
    divisor = np.where(counts > 0, counts, np.nan)
    return Reliability(
        counts,
        np.bincount(bin_of, score, minlength=bins) / divisor,
        np.bincount(bin_of, right, minlength=bins) / divisor,
    )


def risk_curve(labels: NDArray[np.int64], scores: Array, truth: NDArray[np.int64]) -> Array:
    """Compute the error rate among the m items with the highest scores, for m = 1 … n.

    Its mean is the AURC. Items with equal scores are averaged over all their orders. Items without an answer
    are wrong, and come last.

    Args:
        labels: label positions, shape (N,); −1 for no answer.
        scores: in [0, 1], shape (N,).
        truth: label positions, shape (N,); −1 if unknown.

    Returns:
        The error rates, shape (n,) for n items with known truth.
    """
    known = truth >= 0
    doubt = np.where(labels[known] >= 0, -scores[known], np.inf)
    wrong = (labels[known] != truth[known]).astype(np.float64)
    _, group, sizes = np.unique(doubt, return_inverse=True, return_counts=True)
    rates = np.bincount(group, wrong) / sizes
    errors: Array = np.cumsum(np.repeat(rates, sizes)) / np.arange(1, len(wrong) + 1)
    return errors
