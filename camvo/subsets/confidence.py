"""δ_A(L, ω): the probability that the weighted vote of a set of arms is right (Lemma 1 of the paper).

Lemma 1 bounds the probability of this event: the right arms carry more than half of the set's weight. With
two labels, that is the event that the right label wins outright. With more labels it is sufficient, but not
necessary. Wrong votes may split over several labels, and the right label may lead with less than half.

- δ_A is therefore a lower bound of the probability that the weighted vote is right, for any wrong
  answers. The bound is reached if all wrong arms agree.
- Ties count as lost in all forms, although a tie-break may win them.
- The bound depends on L: if an arm is right less often than its L says, so is the vote.

It is computed in three ways: by the paper's approximation (:class:`BetaConfidence`), by Lemma 1 with
independent arms (:class:`ExactConfidence`), and by Lemma 1's event with correlated arms
(:class:`CopulaConfidence`).
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, ndtri

from camvo.numerics.small import TIE
from camvo.typing import Array

TABLE_ARMS = 8
"""Up to this many arms, computing δ_A of all 2ⁿ sets is faster than computing bounds on it."""


def confidence_by_beta_sums(right: float, wrong: float) -> float:
    """1 − F_Beta(½; Σ ωL, Σ ω(1−L)), the paper's approximation of δ_A of one set, from the two sums.

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
        right = float(weights[counted] @ self._lower[arms][counted])
        return confidence_by_beta_sums(right, float(weights[counted].sum()) - right)

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

    The sums ``right`` = Σ ωL and ``wrong`` = Σ ω(1−L) of each set have any shape.
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


_SAMPLES = 4096
"""Samples per round. The standard error of δ_A is at most 0.8%, and 0.3% around 0.97."""

_STREAMS = 16
"""How many matrices of normal variables there are: rounds differ in random error, and memory is bounded."""

_COUNTED_ARMS = 12
"""Up to this many arms, outcomes are counted in a table of all 2ⁿ."""
_BLOCK_ELEMENTS = 2**18
"""The most elements of a block of weighted sets that is in memory at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Copula:
    """The joint distribution of the correctness of K arms on one question in one round.

    Attributes:
        correlation: ρ, shape (K, K), symmetric with unit diagonal. It need not be positive semi-definite.
        seed: selects the stream of random numbers (:meth:`of_round`).
        samples: n, the number of samples.
    """

    correlation: Array
    seed: int = 0
    samples: int = _SAMPLES

    @classmethod
    def of_round(cls, correlation: Array, rounds: int, context: Array) -> Copula:
        """The copula of a round; the rounds before it and its context, shape (d,), select the stream."""
        return cls(correlation, zlib.crc32(np.ascontiguousarray(context).tobytes(), rounds) % _STREAMS)

    def sample_correctness(self, lower: Array) -> NDArray[np.bool_]:
        """Whether each arm is right in each sample, (n, K): 1{Φ(z) < L}, z ~ N(0, C_psd) (Algorithm 4)."""
        normal = _normal(self.seed, self.samples, len(lower)) @ root(nearest_psd(self.correlation))
        return np.asarray(normal < ndtri(lower), dtype=np.bool_)


@lru_cache(maxsize=2 * _STREAMS)
def _normal(seed: int, samples: int, arms: int) -> Array:
    """The fixed standard normal variables, shape (n, K)."""
    return np.random.default_rng((seed, samples, arms)).standard_normal((samples, arms))


_PROJECTIONS, _CONVERGED = 100, 1e-10
"""The most alternating projections, and the step size at which they end."""


def nearest_psd(correlation: Array) -> Array:
    """The nearest correlation matrix in the Frobenius norm (MakePSD of Algorithm 4), shape (K, K).

    Higham's alternating projections (2002) with Dykstra's correction converge to the nearest matrix. Cutting
    off negative eigenvalues and rescaling alone would be quicker, but it ends further away and changes every
    correlation when a single pair is off. The same cut is the last step here, so the result is positive
    semi-definite with unit diagonal even if the projections are stopped early. A matrix that is a
    correlation matrix already is returned unchanged.
    """
    if np.linalg.eigvalsh(correlation).min(initial=1.0) >= 0.0:
        return correlation
    nearest, correction = correlation, np.zeros_like(correlation)
    for _ in range(_PROJECTIONS):
        shifted = nearest - correction
        positive = _positive_part(shifted)
        correction = positive - shifted
        before, nearest = nearest, positive.copy()
        np.fill_diagonal(nearest, 1.0)
        if np.abs(nearest - before).max() < _CONVERGED:
            break
    positive = _positive_part(nearest)
    scale = np.sqrt(np.maximum(np.diag(positive), np.finfo(np.float64).tiny))
    scaled = positive / np.outer(scale, scale)
    np.fill_diagonal(scaled, 1.0)
    return np.asarray((scaled + scaled.T) / 2.0, dtype=np.float64)


def root(correlation: Array) -> Array:
    """The unique symmetric square root of a positive semi-definite matrix, shape (K, K)."""
    values, vectors = np.linalg.eigh(correlation)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T, dtype=np.float64)


def _positive_part(matrix: Array) -> Array:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T, dtype=np.float64)


class _OfSets:
    """What is computed for many sets at once, of n arms."""

    _n: int

    def confidences(self, sets: Array) -> Array:
        """δ_A of each set, shape (m,)."""
        raise NotImplementedError

    def confidence_of(self, arms: list[int]) -> float:
        """δ_A of one set, bit for bit the same with and without arms of weight 0."""
        row = np.zeros((1, self._n))
        row[0, arms] = 1.0
        return float(self.confidences(row)[0])


class CopulaConfidence(_OfSets):
    """The share of samples in which the right arms outweigh the wrong ones, for sets of the given arms.

    L and ω are those of all K arms, for which the samples are drawn, so they do not depend on which arms are
    searched. ``arms`` has the position of the arm in each column of a set.
    """

    def __init__(self, lower: Array, weights: Array, copula: Copula, arms: Sequence[int]) -> None:
        weights = weights[list(arms)]
        self._counted = np.flatnonzero(weights > 0.0)
        self._n, self._weights = len(weights), weights[self._counted]
        right = copula.sample_correctness(lower)[:, np.asarray(arms, dtype=np.intp)[self._counted]]
        self._signs, self._counts = _outcomes(right)
        self._samples = len(right)

    def confidences(self, sets: Array) -> Array:
        """δ_A of each set, shape (m,)."""
        values = np.empty(len(sets))
        step = max(_BLOCK_ELEMENTS // len(self._counts), 1)
        for start in range(0, len(sets), step):
            weighted = sets[start : start + step, self._counted] * self._weights
            values[start : start + step] = self._counts @ (self._signs @ weighted.T > TIE)
        return values / self._samples

    def linear_bounds(self, delta: float) -> tuple[Array, Array] | None:
        """``None``: the bounds for independent arms do not hold for correlated ones."""
        return None

    def upper_bound(self) -> float:
        """The confidence of the best possible vote: it wins at most one of an outcome and its opposite."""
        if len(self._weights) > _COUNTED_ARMS:
            return 1.0
        table = np.zeros(2 ** len(self._weights))
        table[((self._signs > 0.0) @ 2 ** np.arange(len(self._weights))).astype(np.intp)] = self._counts
        return float(np.maximum(table, table[::-1]).sum() / (2 * self._samples))


def _outcomes(right: NDArray[np.bool_]) -> tuple[Array, Array]:
    """The r distinct outcomes, −1 wrong and +1 right, shape (r, n), and their counts, shape (r,)."""
    n = right.shape[1]
    number = (right @ 2.0 ** np.arange(n)).astype(np.intp)
    if n <= _COUNTED_ARMS:
        counts = np.bincount(number, minlength=2**n)
        (outcomes,) = counts.nonzero()
        counts = counts[outcomes]
    else:
        outcomes, counts = np.unique(number, return_counts=True)
    signs = np.where(outcomes[:, None] >> np.arange(n) & 1, 1.0, -1.0)
    return signs, counts.astype(np.float64)


_WHOLE_ARMS = 12
"""Larger sets are split into halves: 2 · 2^(n/2) outcomes and a sort instead of 2ⁿ outcomes."""
_BLOCK_OUTCOMES = 2**15
"""The most outcomes that are in memory at once, so that they fit into a cache."""
_CERTAIN = 1e3
"""The evidence of an arm that is never or always right; more than any δ needs."""


class ExactConfidence(_OfSets):
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

    For each outcome of one half, the probability of the other half's winning leads is looked up. A share of
    the probability of ties may count as won.
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
