"""Lemma 1 computed for many sets at once, with the bounds that the Oracle's search needs."""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from camvo.numerics.tolerances import TIE
from camvo.subsets.confidence import TABLE_ARMS
from camvo.typing import Array

_WHOLE_ARMS = 12
"""Larger sets are split into halves: 2 · 2^(n/2) outcomes and a sort instead of 2ⁿ outcomes."""
_BLOCK_OUTCOMES = 2**15
"""The most outcomes that are in memory at once, so that they fit into a cache."""
_CERTAIN = 1e3
"""The evidence of an arm that is never or always right; more than any δ needs."""


class ExactConfidence:
    """The probability that the right arms outweigh the wrong ones, for independent arms; L and ω (n,)."""

    def __init__(self, lower: Array, weights: Array) -> None:
        (self._counted,) = (weights > 0.0).nonzero()
        self._n = len(weights)
        self._lower, self._weights = lower[self._counted], weights[self._counted]

    def confidences(self, sets: Array) -> Array:
        """δ_A of each set, shape (m,). Sets of similar size are computed together."""
        if len(self._counted) < self._n:
            sets = sets[:, self._counted]
        if len(self._lower) <= TABLE_ARMS:
            return self._table[(sets @ _bits(len(self._lower))).astype(np.intp)]
        sizes = np.asarray(sets.sum(axis=1), dtype=np.intp)
        if len(sets) << int(sizes.max(initial=0)) <= _BLOCK_OUTCOMES:
            return self._by_outcomes(sets, sizes)
        values = np.empty(len(sets))
        for size in np.unique(sizes).tolist():
            alike = np.flatnonzero(sizes == size)
            if size > _WHOLE_ARMS:
                for row in alike:
                    arms = sets[row] > 0.0
                    values[row] = _confidence_of_halves(self._lower[arms], self._weights[arms])
                continue
            step = _BLOCK_OUTCOMES >> size
            for start in range(0, len(alike), step):
                part = alike[start : start + step]
                values[part] = self._by_outcomes(sets[part], sizes[part])
        return values

    def confidence_of(self, arms: list[int]) -> float:
        """δ_A of one set, bit for bit the same with and without arms of weight 0."""
        row = np.zeros((1, self._n))
        row[0, arms] = 1.0
        return float(self.confidences(row)[0])

    def linear_bounds(self, delta: float) -> tuple[Array, Array] | None:
        """The evidence a set needs: Σ −log 4L(1−L) ≥ −log(1 − (2δ−1)²), for all weights (Bhattacharyya).

        δ_A is at most the probability that the best possible vote is right, which is at most
        (1 + √(1 − Π 4L(1−L))) / 2.
        """
        delta -= 2.0 * TIE
        if delta <= 0.5 or self._n <= TABLE_ARMS:
            return None
        evidence = np.zeros((1, self._n))
        chance = np.maximum(4.0 * self._lower * (1.0 - self._lower), np.exp(-_CERTAIN / 2.0))
        evidence[0, self._counted] = -np.log(chance)
        return evidence, np.array([-np.log(4.0 * delta * (1.0 - delta))])

    def upper_bound(self) -> float:
        """The confidence of the best vote of all arms, Bayes' rule with weights log(L/(1−L)).

        It wins at most one of an outcome and its opposite, and a tie is right half of the time. Fewer arms
        are never better than all of them, whatever their weights.
        """
        if len(self._lower) <= TABLE_ARMS:
            return float(self._table.max())
        likely = np.clip(np.maximum(self._lower, 1.0 - self._lower), 0.5, 1.0 - 1e-15)
        weights = np.log(likely) - np.log1p(-likely)
        return _confidence_of_halves(likely, weights, tie_share=0.5)

    @cached_property
    def _table(self) -> Array:
        """δ_A of all 2ⁿ sets, shape (2ⁿ,): each arm is out, in and wrong, or in and right."""
        chance = np.ones(1)
        for factor in np.array([np.ones(len(self._lower)), 1.0 - self._lower, self._lower]).T[:, :, None]:
            chance = (factor * chance).ravel()
        signs, numbers = _states(len(self._lower))
        won = self._weights @ signs > TIE
        return np.minimum(np.bincount(numbers, chance * won, 2 ** len(self._lower)), 1.0)

    def _by_outcomes(self, sets: Array, sizes: NDArray[np.intp]) -> Array:
        """δ_A of sets from all outcomes; smaller sets are padded with right arms of weight 0."""
        row, arm = sets.nonzero()
        size = max(int(sizes.max(initial=0)), 1)
        place = np.arange(len(row)) - (sizes.cumsum() - sizes)[row]
        weights: Array = np.zeros((len(sets), size))
        chances: Array = np.zeros((len(sets), size, 2))
        chances[:, :, 1] = 1.0
        weights[row, place] = self._weights[arm]
        chances[row, place, 1] = lower = self._lower[arm]
        chances[row, place, 0] = 1.0 - lower
        probability = chances[:, 0]
        for position in range(1, size):
            probability = (chances[:, position, :, None] * probability[:, None, :]).reshape(len(sets), -1)
        won = weights @ _signs(size) > TIE
        sums: Array = (probability * won).sum(axis=1)
        return np.minimum(sums, 1.0)


@lru_cache(maxsize=_WHOLE_ARMS + 4)
def _signs(n: int) -> Array:
    """Every outcome of n arms, −1 wrong and +1 right, shape (n, 2ⁿ); the last arm changes slowest."""
    outcomes = np.arange(2**n)
    return np.where(outcomes >> np.arange(n)[:, None] & 1, 1.0, -1.0)


@lru_cache(maxsize=TABLE_ARMS + 1)
def _bits(n: int) -> Array:
    """The bit of each arm in the position of a set, 2ⁱ, shape (n,)."""
    return np.exp2(np.arange(n, dtype=np.float64))


@lru_cache(maxsize=TABLE_ARMS + 1)
def _states(n: int) -> tuple[Array, NDArray[np.intp]]:
    """The 3ⁿ states of n arms: signs (n, 3ⁿ), 0 if out, and sets (3ⁿ,); the last arm changes slowest."""
    digits = np.arange(3**n) // 3 ** np.arange(n)[:, None] % 3
    return np.array([0.0, -1.0, 1.0])[digits], (_bits(n) @ (digits > 0)).astype(np.intp)


def _confidence_of_halves(lower: Array, weights: Array, *, tie_share: float = 0.0) -> float:
    """Compute Lemma 1 for one large set by meeting in the middle.

    For each outcome of one half, the probability of the other half's winning leads is looked up.

    Args:
        lower: L, shape (n,).
        weights: ω > 0, shape (n,).
        tie_share: the share of the probability of ties that counts as won, in [0, 1].
    """
    middle = len(lower) // 2
    lead, chance = _leads(lower[:middle], weights[:middle])
    other, other_chance = _leads(lower[middle:], weights[middle:])
    order = other.argsort()
    other, tail = other[order], np.append(other_chance[order][::-1].cumsum()[::-1], 0.0)
    won = tail[other.searchsorted(TIE - lead, side="right")]
    if tie_share:
        won = won + tie_share * (tail[other.searchsorted(-TIE - lead)] - won)
    return float(min(chance @ won, 1.0))


def _leads(lower: Array, weights: Array) -> tuple[Array, Array]:
    """The lead of the right arms in every outcome of n arms, and its probability, each of shape (2ⁿ,)."""
    lead, chance = np.zeros(1), np.ones(1)
    for p, w in zip(lower.tolist(), weights.tolist(), strict=True):
        lead = np.concatenate((lead - w, lead + w))
        chance = np.concatenate((chance * (1.0 - p), chance * p))
    return lead, chance
