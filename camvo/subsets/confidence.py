"""δ_A(L, ω): the probability that the weighted vote of a set of arms is right (Lemma 1 of the paper).

The event that Lemma 1 bounds: the arms that are right carry more than half of the set's weight. With two
labels that is the event that the right label wins outright. With more it is sufficient, not necessary: the
wrong votes may fall on several labels and the right one still lead with less than half. So δ_A is a lower
bound of the probability that the weighted vote is right, whatever the wrong answers are; it is reached when
the wrong arms all agree, and ties count as lost in all forms, though a tie-break may win them. The bound
leans on L: where an arm is right less often than its L says, so is the vote.

There are three ways to compute δ_A, each a :class:`Confidence` in a file of its own: ``beta`` (the paper's
approximation), ``exact`` (Lemma 1 with independent arms) and ``copula`` (Lemma 1's event, correlated arms).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.special import betainc

from camvo.numerics.tolerances import TIE
from camvo.typing import Array

FEW = 8
"""Up to this many arms, δ_A of all 2ⁿ sets is computed sooner than bounds on it."""


class Confidence(Protocol):
    """δ_A on one question, for many sets of the same n arms.

    Sets are rows of an indicator matrix, shape (m, n): 1.0 where an arm is in the set.
    """

    def confidences(self, sets: Array) -> Array:
        """δ_A of each set, shape (m,)."""
        ...

    def confidence_of(self, arms: list[int]) -> float:
        """δ_A of one set, the same bits whichever sets it was searched among."""
        ...

    def linear_bounds(self, delta: float) -> tuple[Array, Array] | None:
        """What a set must fulfil to reach δ > ½: values (J, n) and thresholds (J,).

        On at least one of the J lines the values of the set's arms add up to the threshold; fulfilling that
        is necessary, not sufficient. ``None``: nothing of the kind is known.
        """
        ...

    def upper_bound(self) -> float:
        """No set, however composed, reaches more than this."""
        ...


def confidence_by_lemma_1(lower: Array, weights: Array) -> float:
    """Lemma 1 itself: the sum over all 2ⁿ outcomes in which the right arms outweigh the wrong ones.

    Args:
        lower: L, the probability that each arm is right, shape (n,), in [0, 1].
        weights: ω ≥ 0, shape (n,). Arms of weight 0 change nothing; without any weight the result is 0.

    >>> import numpy as np
    >>> round(confidence_by_lemma_1(np.array([0.9, 0.8, 0.7]), np.ones(3)), 4)
    0.902
    """
    lead, probability = np.zeros(1), np.ones(1)
    for p, w in zip(lower, weights, strict=True):
        if w > 0.0:
            lead = np.concatenate((lead - w, lead + w))
            probability = np.concatenate((probability * (1.0 - p), probability * p))
    return float(min(probability[lead > TIE].sum(), 1.0))


def confidence_by_beta(lower: Array, weights: Array) -> float:
    """The paper's approximation, 1 − F_Beta(½; W_L, W − W_L) with W_L = Σ ωL and W = Σ ω.

    Args:
        lower: L, shape (n,), in [0, 1].
        weights: ω ≥ 0, shape (n,). Without any weight the result is 0.
    """
    right = float(weights @ lower)
    return confidence_by_beta_sums(right, float(weights.sum()) - right)


def confidence_by_beta_sums(right: float, wrong: float) -> float:
    """The approximation from the sums Σ ωL and Σ ω(1−L) of one set.

    The limits are taken where a parameter of the Beta distribution is 0: no weight on being right gives 0,
    all of it gives 1.
    """
    if right <= TIE:
        return 0.0
    return 1.0 if wrong <= TIE else float(betainc(wrong, right, 0.5))


def confidences_by_beta_sums(right: Array, wrong: Array) -> Array:
    """:func:`confidence_by_beta_sums` of many sets at once, from their sums, each of shape (m,)."""
    proper = (right > TIE) & (wrong > TIE)
    if proper.all():
        return np.asarray(betainc(wrong, right, 0.5), dtype=np.float64)
    values: Array = np.where(right > TIE, 1.0, 0.0)
    values[proper] = betainc(wrong[proper], right[proper], 0.5)
    return values
