"""δ_A with arms that err together: Lemma 1's event, counted over samples of a Gaussian copula (Appendix G).

The normal variables behind the samples are fixed, so the same state and context give the same plan, and all
sets of one round, as well as the searches that follow a failure in it, are compared on common random numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from camvo.numerics.tolerances import TIE
from camvo.state.pairs import nearest_psd, root
from camvo.typing import Array

SAMPLES = 4096
"""Samples of one round: the standard error of δ_A is at most 0.8%, and 0.3% around 0.97."""

STREAMS = 16
"""Different matrices of normal variables: rounds differ in their random error, memory stays bounded."""

_DENSE = 12
"""Up to this many arms, outcomes are counted in a table of all 2ⁿ."""
_VOLUME = 2**18


def copula_seed(rounds: int, context: Array) -> int:
    """The seed of a round: a function of how many rounds came before it and of its context, shape (d,)."""
    return zlib.crc32(np.ascontiguousarray(context).tobytes(), rounds) % STREAMS


@dataclass(frozen=True, slots=True, eq=False)
class Copula:
    """How the correctness of K arms goes together on one question in one round.

    Attributes:
        correlation: ρ, shape (K, K), symmetric with unit diagonal; it need not be positive semi-definite.
        seed: the stream of random numbers.
        samples: n.
    """

    correlation: Array
    seed: int = 0
    samples: int = SAMPLES

    def right(self, lower: Array) -> NDArray[np.bool_]:
        """Who is right in each sample, shape (n, K): 1{Φ(z) < L} with z ~ N(0, C_psd) (Algorithm 4)."""
        normal = _normal(self.seed, self.samples, len(lower)) @ root(nearest_psd(self.correlation))
        return np.asarray(normal < ndtri(lower), dtype=np.bool_)


@lru_cache(maxsize=2 * STREAMS)
def _normal(seed: int, samples: int, arms: int) -> Array:
    """The fixed standard normal variables, shape (n, K)."""
    return np.random.default_rng((seed, samples, arms)).standard_normal((samples, arms))


class CopulaConfidence:
    """The share of samples in which the right arms outweigh the wrong ones, for sets of the given arms.

    ``lower`` and ``weights`` are those of all K arms, ``arms`` the positions that the columns of a set stand
    for: who is searched does not change who is right in which sample.
    """

    def __init__(self, lower: Array, weights: Array, copula: Copula, arms: Sequence[int]) -> None:
        weights = weights[list(arms)]
        self._counted = np.flatnonzero(weights > 0.0)
        self._n, self._weights = len(weights), weights[self._counted]
        right = copula.right(lower)[:, np.asarray(arms, dtype=np.intp)[self._counted]]
        self._signs, self._counts = _outcomes(right)
        self._samples = len(right)

    def confidences(self, sets: Array) -> Array:
        """δ_A of each set, shape (m,)."""
        values = np.empty(len(sets))
        step = max(_VOLUME // len(self._counts), 1)
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
        """Nothing: the bounds of independent arms do not hold for dependent ones."""
        return None

    def upper_bound(self) -> float:
        """The best vote: of an outcome and its opposite, at most one is won."""
        if len(self._weights) > _DENSE:
            return 1.0
        table = np.zeros(2 ** len(self._weights))
        table[((self._signs > 0.0) @ 2 ** np.arange(len(self._weights))).astype(np.intp)] = self._counts
        return float(np.maximum(table, table[::-1]).sum() / (2 * self._samples))


def _outcomes(right: NDArray[np.bool_]) -> tuple[Array, Array]:
    """The different outcomes among samples, −1 wrong and +1 right, (r, n), and how often they come, (r,)."""
    n = right.shape[1]
    number = (right @ 2.0 ** np.arange(n)).astype(np.intp)
    if n <= _DENSE:
        counts = np.bincount(number, minlength=2**n)
        (seen,) = counts.nonzero()
        counts = counts[seen]
    else:
        seen, counts = np.unique(number, return_counts=True)
    signs = np.where(seen[:, None] >> np.arange(n) & 1, 1.0, -1.0)
    return signs, counts.astype(np.float64)
