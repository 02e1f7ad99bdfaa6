"""Test continuously whether scores still come from the same distribution as earlier ones.

Under the hypothesis the scores of one *stratum* are exchangeable: their order carries no information. The
rank of a new score among the earlier ones of its stratum, ties broken at random, is then uniform, and
independent of all earlier ranks, whatever the distribution of the scores (Vovk et al. 2005). Bets on these
ranks accumulate a wealth (:mod:`camvo.numerics.sequential_tests`; for changes: Vovk et al. 2021, "Retrain or
not retrain").
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from camvo.errors import InvalidParameterError

_PATIENCE = 200.0
"""The approximate number of observations until half of the reserved wealth has been moved to bets."""


class _Wager:
    """The wealth of somebody who bets that a hypothesis is wrong from some observation on.

    All of it is held in reserve at first. Before each observation a small part of the reserve is moved, in
    equal parts, to several bets; each bet then multiplies its part by a factor whose mean is at most 1 under
    the hypothesis. A change late in a long series is noticed nearly as soon as an early one: it costs the
    logarithm of the number of observations before it (*fixed share*: Herbster and Warmuth 1998).
    """

    def __init__(self, bets: int) -> None:
        self.count = 0
        self._log_total = 0.0
        self._shares = [1.0] + [0.0] * bets

    @property
    def evidence(self) -> float:
        """The natural logarithm of the wealth."""
        return self._log_total

    def add(self, factors: Sequence[float]) -> None:
        """Settle all bets on one observation."""
        moved = self._shares[0] / (self.count + _PATIENCE)
        part = moved / len(factors)
        shares = [self._shares[0] - moved]
        shares += [(share + part) * factor for share, factor in zip(self._shares[1:], factors, strict=True)]
        total = sum(shares)
        self._log_total += math.log(total)
        self._shares = [share / total for share in shares]
        self.count += 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Wager) and self.to_list() == other.to_list()

    __hash__ = None  # type: ignore[assignment]

    def to_list(self) -> list[Any]:
        """The wager as plain JSON, bit for bit."""
        return [self.count, self._log_total, self._shares]

    @classmethod
    def from_list(cls, data: list[Any]) -> _Wager:
        """Inverse of :meth:`to_list`."""
        count, log_total, shares = data
        wager = cls(len(shares) - 1)
        wager.count, wager._log_total, wager._shares = count, log_total, list(shares)
        return wager


class _BettingTest:
    """A test whose evidence is a wealth. Tests of equal content are equal."""

    _wager: _Wager

    @property
    def tried(self) -> int:
        """The number of observations that were bet on."""
        return self._wager.count

    @property
    def evidence(self) -> float:
        """The natural logarithm of the wealth; at least ln(1/α) with a probability of at most α."""
        return self._wager.evidence

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.to_list() == other.to_list()

    __hash__ = None  # type: ignore[assignment]

    def to_list(self) -> list[Any]:
        """The test as plain JSON, bit for bit."""
        raise NotImplementedError


STEPS = 20
"""Scores are whole numbers from 0 to this."""

_LEAST = 20
"""A stratum's scores are bet on once it has this many earlier scores."""

_Stratum: TypeAlias = tuple[str, ...]
"""The name of a stratum. Which one comes next may depend on earlier scores, but not on the next."""


class ExchangeabilityTest(_BettingTest):
    """Tests whether scores have changed.

    Args:
        tilts: the bets. A bet on η says that a score of x/20 has become e^(η·x/20) times as likely, up to a
            constant. With η > 0 it wins if scores grow.
    """

    def __init__(self, tilts: Sequence[float]) -> None:
        self._tilts = tuple(tilts)
        self._wager = _Wager(len(self._tilts))
        self._strata: dict[_Stratum, Counter[int]] = {}

    def add(self, stratum: _Stratum, score: int, draw: float) -> None:
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
        self._wager = _Wager(len(self._tilts))
        self._strata = {name: counts for name, counts in self._strata.items() if without not in name}

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
        test._wager = _Wager.from_list(wager)
        test._strata = {tuple(name): Counter(dict(counts)) for name, counts in strata}
        return test


def _factors(earlier: Mapping[int, int], rank: float, tilts: Sequence[float]) -> list[float]:
    """What one unit on each bet becomes if the next score has this rank, counted from the largest.

    A bet is a density over the ranks, so that its mean is 1 if they are uniform. The density is the best one
    for the distribution of the earlier scores and one more of each extreme.
    """
    masses = {0: 1, STEPS: 1}
    for value, count in earlier.items():
        masses[value] = masses.get(value, 0) + count
    total = sum(masses.values())
    above, here = 0, 0
    in_order = sorted(masses.items(), reverse=True)  # sums in the order of a dict would depend on insertions
    for value, count in in_order:
        above, here = above + count, value
        if rank * total < above:
            break
    factors = []
    for tilt in tilts:
        mean = sum([count * math.exp(tilt * value / STEPS) for value, count in in_order]) / total
        factors.append(math.exp(tilt * here / STEPS) / mean)
    return factors


_SHIFTS = (0.4, 0.8, 1.6)
"""The bets: the odds of an error are e^0.4, e^0.8 or e^1.6 times as high as promised."""

_SMALLEST = 1e-6
"""Promised errors are raised to this value, so that one unexpected error is never infinite evidence."""


class PromiseTest(_BettingTest):
    """Tests that errors are no more frequent than promised, each time with its own promise.

    The hypothesis is that, whatever happened before, an error has at most the promised probability. Promises
    must be made before the outcome is known, and the tested outcomes must be selected without looking at
    them, such as by exploration.

    >>> test = PromiseTest()
    >>> for _ in range(100):
    ...     test.add(0.01, right=True)
    >>> for _ in range(100):
    ...     test.add(0.01, right=False)
    >>> test.tried, test.right, round(test.promised, 2), test.evidence > 100.0
    (200, 100, 2.0, True)

    Attributes:
        right: how many outcomes were right.
        promised: the sum of the promised probabilities of an error.
    """

    def __init__(self) -> None:
        self.right = 0
        self.promised = 0.0
        self._wager = _Wager(len(_SHIFTS))

    def add(self, promised: float, *, right: bool) -> None:
        """Add one outcome.

        Args:
            promised: the probability of an error that was promised beforehand, in [0, 1].
            right: whether there was no error.

        Raises:
            InvalidParameterError: the promise is not in [0, 1].
        """
        if not 0.0 <= promised <= 1.0:
            raise InvalidParameterError(f"a promised probability must be in [0, 1], got {promised}")
        error = max(promised, _SMALLEST)
        factors = []
        for shift in _SHIFTS:
            growth = math.exp(shift)
            spread = 1.0 - error + error * growth
            factors.append((1.0 if right else growth) / spread)
        self._wager.add(factors)
        self.promised += promised
        self.right += right

    def to_list(self) -> list[Any]:
        """The test as plain JSON, bit for bit."""
        return [self.right, self.promised, self._wager.to_list()]

    @classmethod
    def from_list(cls, data: list[Any]) -> PromiseTest:
        """Inverse of :meth:`to_list`."""
        test = cls()
        test.right, test.promised, wager = data
        test._wager = _Wager.from_list(wager)
        return test
