"""Lemma 1 of the paper, computed directly."""

from __future__ import annotations

import numpy as np

from camvo.numerics.small import TIE
from camvo.typing import Array


def confidence_by_lemma_1(lower: Array, weights: Array) -> float:
    """Compute Lemma 1 directly: sum over all 2ⁿ outcomes in which the right arms outweigh the wrong ones.

    Args:
        lower: L, the probability that each arm is right, shape (n,), in [0, 1].
        weights: ω ≥ 0, shape (n,). Arms of weight 0 change nothing. If all weights are 0, so is the result.

    Returns:
        δ_A, in [0, 1].
    """
    lead, probability = np.zeros(1), np.ones(1)
    for p, w in zip(lower, weights, strict=True):
        if w > 0.0:
            lead = np.concatenate((lead - w, lead + w))
            probability = np.concatenate((probability * (1.0 - p), probability * p))
    return float(min(probability[lead > TIE].sum(), 1.0))
