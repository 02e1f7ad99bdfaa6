"""δ_A(L, ω): the probability that the weighted vote of a set of arms is right (Lemma 1 of the paper).

Lemma 1 bounds the probability of this event: the right arms carry more than half of the set's weight. With
two labels, that is the event that the right label wins outright. With more labels it is sufficient, but not
necessary. Wrong votes may split over several labels, and the right label may lead with less than half.

- δ_A is therefore a lower bound of the probability that the weighted vote is right, whatever the wrong
  answers are. The bound is reached if all wrong arms agree.
- Ties count as lost in all forms, although a tie-break may win them.
- The bound depends on L: if an arm is right less often than its L says, so is the vote.

Three implementations of :class:`Confidence` compute δ_A, each in a module of its own: ``beta`` (the paper's
approximation), ``exact`` (Lemma 1 with independent arms) and ``copula`` (Lemma 1's event, correlated arms).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.special import betainc

from camvo.numerics.tolerances import TIE
from camvo.typing import Array

TABLE_ARMS = 8
"""Up to this many arms, computing δ_A of all 2ⁿ sets is faster than computing bounds on it."""


class Confidence(Protocol):
    """δ_A on one question, for many sets of the same n arms.

    A set is a row of an indicator matrix, shape (m, n): 1.0 if the arm is in the set, else 0.0.
    """

    def confidences(self, sets: Array) -> Array:
        """δ_A of each set, shape (m,), from indicators of shape (m, n)."""
        ...

    def confidence_of(self, arms: list[int]) -> float:
        """δ_A of one set, bit for bit the same whichever sets were searched."""
        ...

    def linear_bounds(self, delta: float) -> tuple[Array, Array] | None:
        """A necessary condition for a set to reach δ > ½, as J lines: values (J, n) and thresholds (J,).

        On at least one line, the values of the set's arms must add up to the threshold. The condition is not
        sufficient. ``None`` means that no condition is known.
        """
        ...

    def upper_bound(self) -> float:
        """A bound that δ_A of no set exceeds."""
        ...


def confidence_by_lemma_1(lower: Array, weights: Array) -> float:
    """Compute Lemma 1 directly: sum over all 2ⁿ outcomes in which the right arms outweigh the wrong ones.

    Args:
        lower: L, the probability that each arm is right, shape (n,), in [0, 1].
        weights: ω ≥ 0, shape (n,). Arms of weight 0 change nothing. If all weights are 0, so is the result.

    Returns:
        δ_A, in [0, 1].

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
    """Compute the paper's approximation, 1 − F_Beta(½; W_L, W − W_L) with W_L = Σ ωL and W = Σ ω.

    Args:
        lower: L, shape (n,), in [0, 1].
        weights: ω ≥ 0, shape (n,). If all weights are 0, so is the result.

    Returns:
        δ_A, in [0, 1].
    """
    right = float(weights @ lower)
    return confidence_by_beta_sums(right, float(weights.sum()) - right)


def confidence_by_beta_sums(right: float, wrong: float) -> float:
    """Compute :func:`confidence_by_beta` of one set from its sums Σ ωL and Σ ω(1−L).

    If a parameter of the Beta distribution is 0, the result is the limit: 0 for Σ ωL = 0, else 1.
    """
    if right <= TIE:
        return 0.0
    return 1.0 if wrong <= TIE else float(betainc(wrong, right, 0.5))


def confidences_by_beta_sums(right: Array, wrong: Array) -> Array:
    """Compute :func:`confidence_by_beta_sums` of m sets from their sums, each of shape (m,)."""
    proper = (right > TIE) & (wrong > TIE)
    if proper.all():
        return np.asarray(betainc(wrong, right, 0.5), dtype=np.float64)
    values: Array = np.where(right > TIE, 1.0, 0.0)
    values[proper] = betainc(wrong[proper], right[proper], 0.5)
    return values
