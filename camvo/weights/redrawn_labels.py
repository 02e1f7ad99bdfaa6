"""Whether the rounds so far settle the labels: do weights learnt from other rounds give the same labels?

Weights that were learnt from few rounds can be far from those of many rounds, and nothing in the votes shows
it. The Bayesian bootstrap (Rubin 1981) draws other rounds that could as well have come: every round gets a
random weight, exponential with mean 1. If weights learnt from these rounds give other labels to many rounds,
more rounds have to ask all arms before weights are relied on.

The functions know nothing of how a label is found, so they serve any model of votes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from camvo.typing import Array

DRAWS: Final = 20
"""How often rounds are drawn again."""


def redrawn_counts(counts: Array, draws: int = DRAWS, seed: int = 0) -> Array:
    """Draw the numbers of rounds again, by the Bayesian bootstrap.

    Args:
        counts: how often each of n patterns occurred, ≥ 0, shape (n,).
        draws: B, how often to draw.
        seed: the same seed draws the same numbers.

    Returns:
        The counts of each draw, shape (B, n): gamma with the mean and variance of ``counts``, scaled so that
        every draw has as many rounds.
    """
    drawn = np.random.default_rng(seed).standard_gamma(counts, size=(draws, len(counts)))
    total = np.maximum(drawn.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    return np.asarray(drawn * (counts.sum() / total), dtype=np.float64)


def changed_labels(
    counts: Array, labels_of: Callable[[Array], NDArray[np.int64]], draws: int = DRAWS, seed: int = 0
) -> float:
    """The share of rounds whose label would change if other rounds had taught the weights.

    Args:
        counts: how often each of n patterns occurred, ≥ 0, shape (n,).
        labels_of: from counts of shape (B, n) to the label of each pattern, shape (B, n), at the weights that
            these counts teach. Any numbering of labels will do.
        draws: how often to draw the rounds again.
        seed: the seed of the draws.

    Returns:
        The mean over the draws, in [0, 1]; 1 without rounds.
    """
    total = float(counts.sum())
    if total <= 0.0:
        return 1.0
    labels = labels_of(np.concatenate((counts[None], redrawn_counts(counts, draws, seed))))
    return float(((labels[1:] != labels[0]) @ counts).mean() / total)
