"""How the arms' rewards go together (Appendix G, Algorithm 3), as sums that can be taken back.

Algorithm 3 as printed is not Welford's update, though it is called so: both factors of M_ij are deviations
from the new means, where Welford takes one from the old mean, so M_ij falls short of the sum of products by
a little in each of the first rounds (with two rounds by half). σ_i = 0 divides by zero. And μ_i and σ_i run
over all rounds of an arm while cov_ij runs over the rounds it shares with j, so ρ_ij mixes two populations
and can leave [−1, 1]. Here each pair has its own sums over its common rounds, and ρ is the plain sample
correlation over them, 0 where one of the two has no spread. Where every pair meets in every round, the two
estimates differ by O(1/n).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np

from camvo.typing import Array

_COUNT, _REWARD, _SQUARE, _PRODUCT = range(4)
_WAITING = 64
"""Rounds that are added up together: one by one they would cost more than all else that a round teaches."""
_NO_SPREAD = 1e-9
"""n²·variance up to here is what rounding leaves of equal rewards."""
_ROUNDS, _CONVERGED = 100, 1e-10
"""Of the alternating projections: the most there are, and the step at which they end."""


class PairSums:
    """Signed sums over the rounds that two arms share: n, Σr_i, Σr_i², Σr_i·r_j.

    ``sums`` has shape (4, K, K); [:, i, j] is over the common rounds of i and j, in which row i holds r_i and
    r_i², so Σr_j stands at [1, j, i]. The squares are needed where rewards are fractions; for rewards of 0
    and 1 everything is a count, and taking a round back is exact.
    """

    def __init__(self, names: Iterable[str] = (), sums: Array | None = None) -> None:
        self._index = {name: position for position, name in enumerate(names)}
        self._sums: Array = np.zeros((4, len(self._index), len(self._index))) if sums is None else sums
        self._waiting: list[tuple[int, Mapping[str, float]]] = []

    @property
    def names(self) -> tuple[str, ...]:
        """The arms in the order of the sums."""
        self._settle()
        return tuple(self._index)

    @property
    def sums(self) -> Array:
        """The sums of all rounds, shape (4, K, K)."""
        self._settle()
        return self._sums

    def add(self, rounds: Iterable[Mapping[str, float]], sign: int) -> None:
        """Add (+1) or take back (−1) rounds: every unordered pair of the arms with a reward in one.

        A few rounds wait until there are enough of them, or until somebody looks at the sums.
        """
        self._waiting.extend([(sign, rewards) for rewards in rounds if len(rewards) > 1])
        if len(self._waiting) >= _WAITING:
            self._settle()

    def _settle(self) -> None:
        """Add up what is waiting."""
        if not self._waiting:
            return
        named = dict.fromkeys(chain(*(rewards for _, rewards in self._waiting)))
        missing = [arm for arm in named if arm not in self._index]
        if missing:
            self._index |= {arm: len(self._index) + position for position, arm in enumerate(missing)}
            self._sums = np.pad(self._sums, ((0, 0), (0, len(missing)), (0, len(missing))))
        there, r = np.zeros((2, len(self._index), len(self._waiting)))
        given = [
            (self._index[arm], column, reward)
            for column, (_, rewards) in enumerate(self._waiting)
            for arm, reward in rewards.items()
        ]
        row, column, rewards = zip(*given, strict=True)
        there[row, column], r[row, column] = 1.0, rewards
        signs = np.array([sign for sign, _ in self._waiting])
        self._sums[:_PRODUCT] += np.array((there, r, r * r)) * signs @ there.T
        self._sums[_PRODUCT] += r * signs @ r.T
        self._waiting.clear()

    def correlation(self, arms: Sequence[str]) -> Array:
        """ρ = cov / (σσ) over the common rounds of each pair, shape (K, K), in [−1, 1], diagonal 1.

        It is 0 for an arm without history, for fewer than two common rounds and where one of the two always
        got the same reward. Different pairs are estimated on different rounds, so the matrix need not be
        positive semi-definite (:func:`nearest_psd`).
        """
        self._settle()
        rho = np.eye(len(arms))
        known = [position for position, arm in enumerate(arms) if arm in self._index]
        if not known:
            return rho
        at = np.array([self._index[arms[position]] for position in known])
        n, total, square, product = self._sums[:, at[:, None], at]
        spread = n * square - total * total
        varies = (spread > _NO_SPREAD) & (spread.T > _NO_SPREAD) & (n > 1.0)
        scale = np.sqrt(np.where(varies, spread * spread.T, 1.0))
        found = np.where(varies, (n * product - total * total.T) / scale, 0.0)
        np.fill_diagonal(found, 1.0)
        rho[np.ix_(known, known)] = np.clip(found, -1.0, 1.0)
        return rho


def nearest_psd(correlation: Array) -> Array:
    """The nearest correlation matrix in the Frobenius norm (MakePSD of Algorithm 4), shape (K, K).

    Higham's alternating projections (2002) with Dykstra's correction, which converge to the nearest matrix;
    cutting off negative eigenvalues and rescaling alone is quicker but ends further away, and changes every
    correlation where one pair was off. That cut is the last step, so the result is positive semi-definite
    with unit diagonal even where the projections were stopped. A matrix that is one already is returned.
    """
    if np.linalg.eigvalsh(correlation).min(initial=1.0) >= 0.0:
        return correlation
    nearest, correction = correlation, np.zeros_like(correlation)
    for _ in range(_ROUNDS):
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
    """The symmetric square root of a positive semi-definite matrix: the one that is unique, shape (K, K)."""
    values, vectors = np.linalg.eigh(correlation)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T, dtype=np.float64)


def _positive_part(matrix: Array) -> Array:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T, dtype=np.float64)
