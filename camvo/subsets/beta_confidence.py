"""The Beta approximation of δ_A as the Oracle searches it."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from camvo.numerics.tolerances import TIE
from camvo.subsets.confidence import FEW, confidence_by_beta, confidences_by_beta_sums
from camvo.typing import Array

_LOWEST, _HIGHEST = -5, 7
"""The octaves of b in which the frontier is computed; over one of them it is at most 3% above its chord."""
_NODES = 2.0 ** np.arange(_LOWEST, _HIGHEST + 1)
_FINE = 16
_SLACK = 1e-9


class BetaConfidence:
    """1 − F_Beta(½; Σ ωL, Σ ω(1−L)) for sets of the given arms (L and ω of shape (n,))."""

    def __init__(self, lower: Array, weights: Array) -> None:
        self._lower, self._weights = lower, weights
        self._right, self._wrong = weights * lower, weights * (1.0 - lower)

    def confidences(self, sets: Array) -> Array:
        """δ_A of each set, shape (m,)."""
        return confidences_by_beta_sums(sets @ self._right, sets @ self._wrong)

    def confidence_of(self, arms: list[int]) -> float:
        """δ_A of one set, the same bits with and without arms of weight 0."""
        weights = self._weights[arms]
        counted = weights > 0.0
        return confidence_by_beta(self._lower[arms][counted], weights[counted])

    def linear_bounds(self, delta: float) -> tuple[Array, Array] | None:
        """Chords below the frontier: the least a = Σ ωL that reaches δ with a given b = Σ ω(1−L).

        The approximation rises in a and falls in b, so a set reaches δ exactly where a ≥ frontier(b). For
        δ > ½ the frontier is concave from (0, 0) (the tests check it numerically), so it lies above its
        chords, and a set that reaches δ is above the chord over its own b: a − slope·b ≥ offset.
        """
        shortfall = _rounded_up(1.0 - delta)
        if shortfall >= 0.5 or len(self._lower) <= FEW:
            return None
        slopes, offsets = _chords(shortfall)
        needed = int(np.searchsorted(_NODES, self._wrong.sum())) + 1
        return self._right - slopes[:needed, None] * self._wrong, offsets[:needed]

    def upper_bound(self) -> float:
        """Certainty: the lines already find out where no set is confident enough."""
        return 1.0


def may_reach(delta: float, right: Array, wrong: Array) -> NDArray[np.bool_]:
    """Which sums Σ ωL and Σ ω(1−L) may reach δ > ½, by the chord over their own b, shape as given.

    Every set that reaches δ passes, and few others do.
    """
    b, a = _frontier(1.0 - delta, _FINE)
    possible: NDArray[np.bool_] = right > TIE
    possible &= right >= np.interp(wrong, b, a) - _SLACK
    return possible


def _rounded_up(shortfall: float) -> float:
    """1 − δ rounded up to two digits: few frontiers serve every δ, and one of a smaller δ is valid."""
    shortfall = max(shortfall * (1.0 + 1e-6), 1e-6)
    unit = float(10.0 ** (math.floor(math.log10(shortfall)) - 1))
    return math.ceil(shortfall / unit) * unit


@lru_cache(maxsize=512)
def _chords(shortfall: float) -> tuple[Array, Array]:
    """Slopes and offsets of the chords over [0, b₀], [b₀, b₁], … and of the line beyond the last node."""
    b, a = _frontier(shortfall, 1)
    slopes = np.append(np.diff(a) / np.diff(b), 1.0)
    return slopes, a - slopes * b


@lru_cache(maxsize=512)
def _frontier(shortfall: float, fineness: int) -> tuple[Array, Array]:
    """Points (b, a) just below the frontier, from (0, 0) on, with so many nodes in each octave of b."""
    delta, nodes = 1.0 - shortfall, 2.0 ** (np.arange(_LOWEST * fineness, _HIGHEST * fineness + 1) / fineness)
    low, high = nodes.copy(), nodes * (delta / shortfall)
    for _ in range(60):
        middle = (low + high) / 2.0
        enough = betainc(nodes, middle, 0.5) >= delta
        high, low = np.where(enough, middle, high), np.where(enough, low, middle)
    return np.append(0.0, nodes), np.append(0.0, low)
