"""Whether scores say how often they are right, drawn out: by bins of the score, and by how many are kept.

Labels and truth are positions in the label set, shape (n,). Items of unknown truth (−1) have no part in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from camvo.typing import Array

BINS = 15
"""Bins of a reliability diagram, and of the ECE."""


@dataclass(frozen=True, slots=True, eq=False)
class Reliability:
    """The items in bins of equal width over [0, 1] by their score; every array has one element a bin.

    Attributes:
        counts: items in the bin.
        score: their mean score, NaN in an empty bin.
        accuracy: the share of them that is right, NaN in an empty bin.
    """

    counts: NDArray[np.int64]
    score: Array
    accuracy: Array


def reliability(
    labels: NDArray[np.int64], scores: Array, truth: NDArray[np.int64], bins: int = BINS
) -> Reliability:
    """The bins of a reliability diagram; ECE is the mean of |accuracy − score| weighted by the counts.

    A score on the edge of two bins belongs to the lower one. Items without an answer (label −1) are left out.
    """
    counted = (truth >= 0) & (labels >= 0)
    score, right = scores[counted], labels[counted] == truth[counted]
    chosen = np.clip(np.ceil(score * bins).astype(np.int64) - 1, 0, bins - 1)
    counts = np.bincount(chosen, minlength=bins)
    share = np.where(counts > 0, counts, np.nan)
    return Reliability(
        counts,
        np.bincount(chosen, score, minlength=bins) / share,
        np.bincount(chosen, right, minlength=bins) / share,
    )


def risk_curve(labels: NDArray[np.int64], scores: Array, truth: NDArray[np.int64]) -> Array:
    """The error rate among the m items with the highest scores, for m = 1 … n; AURC is its mean.

    Equal scores are taken in every order at once. An item without an answer is wrong, and comes after all
    that have one.
    """
    known = truth >= 0
    doubt = np.where(labels[known] >= 0, -scores[known], np.inf)
    wrong = (labels[known] != truth[known]).astype(np.float64)
    _, group, sizes = np.unique(doubt, return_inverse=True, return_counts=True)
    rates = np.bincount(group, wrong) / sizes
    errors: Array = np.cumsum(np.repeat(rates, sizes)) / np.arange(1, len(wrong) + 1)
    return errors
