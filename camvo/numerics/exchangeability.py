"""Test as one goes whether scores still come from the same distribution as earlier ones.

Under the hypothesis the scores of one *stratum* are exchangeable: their order says nothing. The rank of a new
score among the earlier ones of its stratum, ties broken at random, is then uniform, and independent of all
earlier ranks, whatever the distribution of the scores (Vovk et al. 2005). Bets on these ranks make a wealth
(:mod:`camvo.numerics.wagers`; for changes: Vovk et al. 2021, "Retrain or not retrain").
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from camvo.numerics.wagers import Wager

STEPS = 20
"""Scores are whole numbers from 0 to this."""

_LEAST = 20
"""The number of earlier scores in a stratum from which on its scores are bet on."""

Stratum: TypeAlias = tuple[str, ...]
"""The name of a stratum. Which one comes next may depend on earlier scores, but not on the next."""


class ExchangeabilityTest:
    """Tests whether scores have changed.

    Args:
        tilts: the bets. A bet on η says that a score of x/20 has become e^(η·x/20) times as likely, up to a
            constant. With η > 0 it wins if scores grow.
    """

    def __init__(self, tilts: Sequence[float]) -> None:
        self._tilts = tuple(tilts)
        self._wager = Wager(len(self._tilts))
        self._strata: dict[Stratum, Counter[int]] = {}

    @property
    def tried(self) -> int:
        """The number of scores that were bet on."""
        return self._wager.count

    @property
    def evidence(self) -> float:
        """The natural logarithm of the wealth; at least ln(1/α) with a probability of at most α."""
        return self._wager.evidence

    def add(self, stratum: Stratum, score: int, draw: float) -> None:
        """Add one score.

        Args:
            stratum: its stratum.
            score: a whole number from 0 to 20.
            draw: breaks ties, in [0, 1); uniform, and independent of the scores.
        """
        earlier = self._strata.setdefault(stratum, Counter())
        size = earlier.total()
        if size >= _LEAST:
            above = sum(count for value, count in earlier.items() if value > score)
            rank = (above + draw * (earlier[score] + 1)) / (size + 1)
            self._wager.add(_factors(earlier, rank, self._tilts))
        earlier[score] += 1

    def restart(self, *, without: str) -> None:
        """Begin with a new wealth, and forget the strata whose name contains ``without``."""
        self._wager = Wager(len(self._tilts))
        self._strata = {name: counts for name, counts in self._strata.items() if without not in name}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExchangeabilityTest) and self.to_list() == other.to_list()

    __hash__ = None  # type: ignore[assignment]

    def to_list(self) -> list[Any]:
        """The test as plain JSON, bit for bit."""
        strata = [
            [list(name), [list(item) for item in sorted(counts.items())]]
            for name, counts in self._strata.items()
        ]
        return [list(self._tilts), self._wager.to_list(), strata]

    @classmethod
    def from_list(cls, data: list[Any]) -> ExchangeabilityTest:
        """Inverse of :meth:`to_list`."""
        tilts, wager, strata = data
        test = cls(tilts)
        test._wager = Wager.from_list(wager)
        test._strata = {tuple(name): Counter(dict(counts)) for name, counts in strata}
        return test


def _factors(earlier: Mapping[int, int], rank: float, tilts: Sequence[float]) -> list[float]:
    """What one unit on each bet becomes if the next score has this rank, counted from the largest.

    A bet is a density over the ranks, so that its mean is 1 if they are uniform. It is the one that would be
    best if the earlier scores, and one more of each extreme, were all that there are.
    """
    masses = {0: 1, STEPS: 1}
    for value, count in earlier.items():
        masses[value] = masses.get(value, 0) + count
    total = sum(masses.values())
    above, here = 0, 0
    in_order = sorted(masses.items(), reverse=True)  # sums in the order of a dict would depend on its past
    for value, count in in_order:
        above, here = above + count, value
        if rank * total < above:
            break
    factors = []
    for tilt in tilts:
        mean = sum([count * math.exp(tilt * value / STEPS) for value, count in in_order]) / total
        factors.append(math.exp(tilt * here / STEPS) / mean)
    return factors
