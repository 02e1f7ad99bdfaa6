"""δ_A for correlated arms: Lemma 1's event, counted over samples of a Gaussian copula (Appendix G).

The normal variables behind the samples are fixed, so the same state and context give the same plan. All sets
of one round are compared on common random numbers, also in the searches that follow a failed call.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from camvo.numerics.correlation_matrices import nearest_psd, root
from camvo.numerics.tolerances import TIE
from camvo.typing import Array

SAMPLES = 4096
"""Samples per round. The standard error of δ_A is at most 0.8%, and 0.3% around 0.97."""

STREAMS = 16
"""How many matrices of normal variables there are: rounds differ in random error, and memory is bounded."""

_TABLE_ARMS = 12
"""Up to this many arms, outcomes are counted in a table of all 2ⁿ."""
_BLOCK_ELEMENTS = 2**18
"""The most elements of a block of weighted sets that is in memory at once."""


def copula_seed(rounds: int, context: Array) -> int:
    """Derive the seed of a round from the number of rounds before it and its context, shape (d,)."""
    return zlib.crc32(np.ascontiguousarray(context).tobytes(), rounds) % STREAMS


@dataclass(frozen=True, slots=True, eq=False)
class Copula:
    """The joint distribution of the correctness of K arms on one question in one round.

    Attributes:
        correlation: ρ, shape (K, K), symmetric with unit diagonal. It need not be positive semi-definite.
        seed: selects the stream of random numbers (:func:`copula_seed`).
        samples: n, the number of samples.
    """

    correlation: Array
    seed: int = 0
    samples: int = SAMPLES

    def sample_correctness(self, lower: Array) -> NDArray[np.bool_]:
        """Sample which arms are right: 1{Φ(z) < L} with z ~ N(0, C_psd) (Algorithm 4).

        Args:
            lower: L, shape (K,).

        Returns:
            Whether each arm is right in each sample, shape (n, K).
        """
        normal = _normal(self.seed, self.samples, len(lower)) @ root(nearest_psd(self.correlation))
        return np.asarray(normal < ndtri(lower), dtype=np.bool_)


@lru_cache(maxsize=2 * STREAMS)
def _normal(seed: int, samples: int, arms: int) -> Array:
    """The fixed standard normal variables, shape (n, K)."""
    return np.random.default_rng((seed, samples, arms)).standard_normal((samples, arms))


class CopulaConfidence:
    """The share of samples in which the right arms outweigh the wrong ones, for sets of the given arms.

    The samples are drawn for all K arms, so they do not depend on which arms are searched.

    Args:
        lower: L of all arms, shape (K,).
        weights: ω of all arms, shape (K,).
        copula: the joint distribution of their correctness.
        arms: the position of the arm in each column of a set.
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

    def confidence_of(self, arms: list[int]) -> float:
        """δ_A of one set."""
        row = np.zeros((1, self._n))
        row[0, arms] = 1.0
        return float(self.confidences(row)[0])

    def linear_bounds(self, delta: float) -> tuple[Array, Array] | None:
        """``None``: the bounds for independent arms do not hold for correlated ones."""
        return None

    def upper_bound(self) -> float:
        """The confidence of the best possible vote: it wins at most one of an outcome and its opposite."""
        if len(self._weights) > _TABLE_ARMS:
            return 1.0
        table = np.zeros(2 ** len(self._weights))
        table[((self._signs > 0.0) @ 2 ** np.arange(len(self._weights))).astype(np.intp)] = self._counts
        return float(np.maximum(table, table[::-1]).sum() / (2 * self._samples))


def _outcomes(right: NDArray[np.bool_]) -> tuple[Array, Array]:
    """The r distinct outcomes, −1 wrong and +1 right, shape (r, n), and their counts, shape (r,)."""
    n = right.shape[1]
    number = (right @ 2.0 ** np.arange(n)).astype(np.intp)
    if n <= _TABLE_ARMS:
        counts = np.bincount(number, minlength=2**n)
        (outcomes,) = counts.nonzero()
        counts = counts[outcomes]
    else:
        outcomes, counts = np.unique(number, return_counts=True)
    signs = np.where(outcomes[:, None] >> np.arange(n) & 1, 1.0, -1.0)
    return signs, counts.astype(np.float64)
