"""δ_A(L, ω): the probability that the weighted vote of a set of arms is right (Lemma 1 of the paper).

Both forms bound the same event: the arms that are right carry more than half of the weight. With more than
two labels that is sufficient for the right label to win, not necessary, so δ_A is conservative there.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betainc

from camvo.typing import Array

TIE = 1e-12
"""Weights whose sums differ by less than this are tied: rounding must not decide a vote."""


def exact(lower: Array, weights: Array) -> float:
    """Lemma 1 itself: the sum over all 2ⁿ outcomes in which the right arms outweigh the wrong ones.

    Args:
        lower: L, the probability that each arm is right, shape (n,), in [0, 1].
        weights: ω ≥ 0, shape (n,). Arms of weight 0 change nothing; without any weight the result is 0.

    >>> import numpy as np
    >>> round(exact(np.array([0.9, 0.8, 0.7]), np.ones(3)), 4)
    0.902
    """
    lead, probability = np.zeros(1), np.ones(1)
    for p, w in zip(lower, weights, strict=True):
        if w > 0.0:
            lead = np.concatenate((lead - w, lead + w))
            probability = np.concatenate((probability * (1.0 - p), probability * p))
    return float(min(probability[lead > TIE].sum(), 1.0))


def beta(lower: Array, weights: Array) -> float:
    """The paper's approximation, 1 − F_Beta(½; W_L, W − W_L) with W_L = Σ ωL and W = Σ ω.

    Args:
        lower: L, shape (n,), in [0, 1].
        weights: ω ≥ 0, shape (n,). Without any weight the result is 0.
    """
    right = float(weights @ lower)
    return float(beta_of_sums(np.array([right]), np.array([float(weights.sum()) - right]))[0])


def beta_of_sums(right: Array, wrong: Array) -> Array:
    """The approximation for many sets at once, from their sums Σ ωL and Σ ω(1−L), each of shape (m,).

    The limits are taken where a parameter of the Beta distribution is 0: no weight on being right gives 0,
    all of it gives 1.
    """
    right, wrong = np.maximum(right, 0.0), np.maximum(wrong, 0.0)
    values: Array = np.where(right > TIE, 1.0, 0.0)
    proper = (right > TIE) & (wrong > TIE)
    values[proper] = betainc(wrong[proper], right[proper], 0.5)
    return values
