"""The Beta approximation of δ_A for many sets, with the bounds that the Oracle's search needs."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from camvo.numerics.tolerances import TIE
from camvo.subsets.confidence import TABLE_ARMS, confidence_by_beta, confidences_by_beta_sums
from camvo.typing import Array

_LOWEST, _HIGHEST = -5, 7
"""The frontier is computed for b from 2⁻⁵ to 2⁷. Within an octave it exceeds its chord by at most 3%."""
_NODES = 2.0 ** np.arange(_LOWEST, _HIGHEST + 1)
_NODES_PER_OCTAVE = 16
_SLACK = 1e-9


class BetaConfidence:
    """1 − F_Beta(½; Σ ωL, Σ ω(1−L)) for sets of n arms, with L and ω of shape (n,)."""

    def __init__(self, lower: Array, weights: Array) -> None:
        self._lower, self._weights = lower, weights
        self._right, self._wrong = weights * lower, weights * (1.0 - lower)

    def confidences(self, sets: Array) -> Array:
        """δ_A of each set, shape (m,)."""
        return confidences_by_beta_sums(sets @ self._right, sets @ self._wrong)

    def confidence_of(self, arms: list[int]) -> float:
        """δ_A of one set, bit for bit the same with and without arms of weight 0."""
        weights = self._weights[arms]
        counted = weights > 0.0
        return confidence_by_beta(self._lower[arms][counted], weights[counted])

    def linear_bounds(self, delta: float) -> tuple[Array, Array] | None:
        """Chords below the frontier, the smallest a = Σ ωL that reaches δ for a given b = Σ ω(1−L).

        The approximation rises in a and falls in b, so a set reaches δ exactly if a ≥ frontier(b). For δ > ½
        the frontier is concave from (0, 0) on (the tests check this numerically). It therefore lies above
        its chords, and a set that reaches δ lies above the chord over its own b: a − slope·b ≥ offset.
        """
        shortfall = _rounded_up(1.0 - delta)
        if shortfall >= 0.5 or len(self._lower) <= TABLE_ARMS:
            return None
        slopes, offsets = _chords(shortfall)
        needed = int(np.searchsorted(_NODES, self._wrong.sum())) + 1
        return self._right - slopes[:needed, None] * self._wrong, offsets[:needed]

    def upper_bound(self) -> float:
        """1: the linear bounds already reveal that no set is confident enough."""
        return 1.0


def may_reach(delta: float, right: Array, wrong: Array) -> NDArray[np.bool_]:
    """Screen sets for δ > ½ by the chord over their own b; every set that reaches δ passes, and few others.

    Args:
        delta: δ in (½, 1).
        right: Σ ωL of each set, any shape.
        wrong: Σ ω(1−L) of each set, of the same shape.

    Returns:
        Whether each set may reach δ, in the shape of the arguments.
    """
    b, a = _frontier(1.0 - delta, _NODES_PER_OCTAVE)
    possible: NDArray[np.bool_] = right > TIE
    possible &= right >= np.interp(wrong, b, a) - _SLACK
    return possible


def _rounded_up(shortfall: float) -> float:
    """1 − δ rounded up to two digits. The frontier of a smaller δ is valid, so a few serve every δ."""
    shortfall = max(shortfall * (1.0 + 1e-6), 1e-6)
    unit = float(10.0 ** (math.floor(math.log10(shortfall)) - 1))
    return math.ceil(shortfall / unit) * unit


@lru_cache(maxsize=512)
def _chords(shortfall: float) -> tuple[Array, Array]:
    """Slopes and offsets of the chords over [0, b₀], [b₀, b₁], …, and of the line beyond the last node."""
    b, a = _frontier(shortfall, 1)
    slopes = np.append(np.diff(a) / np.diff(b), 1.0)
    return slopes, a - slopes * b


@lru_cache(maxsize=512)
def _frontier(shortfall: float, fineness: int) -> tuple[Array, Array]:
    """Points (b, a) just below the frontier, from (0, 0) on, with ``fineness`` nodes per octave of b."""
    delta, nodes = 1.0 - shortfall, 2.0 ** (np.arange(_LOWEST * fineness, _HIGHEST * fineness + 1) / fineness)
    low, high = nodes.copy(), nodes * (delta / shortfall)
    for _ in range(60):
        middle = (low + high) / 2.0
        enough = betainc(nodes, middle, 0.5) >= delta
        high, low = np.where(enough, middle, high), np.where(enough, low, middle)
    return np.append(0.0, nodes), np.append(0.0, low)
