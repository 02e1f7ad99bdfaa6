"""The correlation of the arms' rewards (Appendix G, Algorithm 3), from sums that can be taken back.

Each pair of arms has its own sums over the rounds that rewarded both. ρ is the sample correlation over these
rounds, or 0 if one of the two has no spread. If every round rewards every pair, this differs from Algorithm 3
by O(1/n). Algorithm 3 is not used as printed, for three reasons:

- It is called Welford's update, but both factors of M_ij are deviations from the new means. Welford takes one
  of them from the old mean. M_ij therefore falls short of the sum of products (by half after two rounds).
- σ_i = 0 divides by zero.
- μ_i and σ_i run over all rounds of an arm, cov_ij over the rounds shared with j. So ρ_ij mixes two
  populations and can leave [−1, 1].
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np

from camvo.typing import Array

_COUNT, _REWARD, _SQUARE, _PRODUCT = range(4)
_WAITING = 64
"""How many rounds are added up together. Adding them one by one would cost more than the rest of learning."""
_NO_SPREAD = 1e-9
"""The largest n²·variance that counts as 0: rounding leaves as much of equal rewards."""


class PairSums:
    """Signed sums over the rounds that rewarded both arms of a pair: n, Σr_i, Σr_i², Σr_i·r_j.

    With rewards of 0 and 1 all sums are counts, so that taking a round back is exact. Only fractional rewards
    need the squares.

    Args:
        names: the K arms in the order of ``sums``.
        sums: shape (4, K, K); zeros by default. Entry [:, i, j] is over the common rounds of i and j. Row i
            holds r_i and r_i², so Σr_j is at [1, j, i].
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
        """Add (+1) or take back (−1) rounds. Each counts for every pair of the arms that it rewards.

        Rounds are collected and added up together, at the latest when the sums are read.

        Args:
            rounds: for each round, arm → reward.
            sign: +1 or −1.
        """
        self._waiting.extend([(sign, rewards) for rewards in rounds if len(rewards) > 1])
        if len(self._waiting) >= _WAITING:
            self._settle()

    def rename(self, names: Mapping[str, str]) -> None:
        """Give some arms other names (old → new)."""
        self._settle()
        self._index = {names.get(name, name): position for name, position in self._index.items()}

    def _settle(self) -> None:
        """Add up the rounds that were collected."""
        if not self._waiting:
            return
        named = dict.fromkeys(chain(*(rewards for _, rewards in self._waiting)))
        missing = [arm for arm in named if arm not in self._index]
        if missing:
            self._index |= {arm: len(self._index) + position for position, arm in enumerate(missing)}
            self._sums = np.pad(self._sums, ((0, 0), (0, len(missing)), (0, len(missing))))
        rewarded, r = np.zeros((2, len(self._index), len(self._waiting)))
        entries = [
            (self._index[arm], column, reward)
            for column, (_, rewards) in enumerate(self._waiting)
            for arm, reward in rewards.items()
        ]
        row, column, rewards = zip(*entries, strict=True)
        rewarded[row, column], r[row, column] = 1.0, rewards
        signs = np.array([sign for sign, _ in self._waiting])
        self._sums[:_PRODUCT] += np.array((rewarded, r, r * r)) * signs @ rewarded.T
        self._sums[_PRODUCT] += r * signs @ r.T
        self._waiting.clear()

    def correlation(self, arms: Sequence[str]) -> Array:
        """ρ_ij = cov_ij / (σ_i·σ_j) over the common rounds of each pair, in [−1, 1].

        ρ_ij is 0 in three cases: an arm has no history, there are fewer than two common rounds, or one of the
        two arms always got the same reward. Pairs are estimated on different rounds, so the matrix need not
        be positive semi-definite (:func:`camvo.numerics.correlation_matrices.nearest_psd`).

        Args:
            arms: the names of K arms.

        Returns:
            ρ, shape (K, K), with 1 on the diagonal.
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
        correlation = np.where(varies, (n * product - total * total.T) / scale, 0.0)
        np.fill_diagonal(correlation, 1.0)
        rho[np.ix_(known, known)] = np.clip(correlation, -1.0, 1.0)
        return rho
