"""Tests that hold at every look: whether scores have changed, and which way of labelling is best.

**Changes.** Under the hypothesis the scores of one *stratum* are exchangeable: their order carries no
information. The rank of a new score among the earlier ones of its stratum, ties broken at random, is then
uniform, and independent of all earlier ranks, whatever the distribution of the scores (Vovk et al. 2005).
Bets on these ranks accumulate a wealth (for changes: Vovk et al. 2021, "Retrain or not retrain").

**Ways of labelling** the same tasks are compared task by task: two of them, or several until the best is
found. Each comparison of two ways is a bet on the difference of their rewards. A bet of λ on the first
multiplies its stake by 1 + λ·(difference), whose mean is at most 1 if the first is no better, whatever
happened before. So the probability that the wealth ever reaches a bar b is at most 1/b (Ville), and one may
look after each task. The wealth is the mean over a grid of λ (Waudby-Smith and Ramdas 2024, "Estimating means
of bounded random variables by betting").
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.typing import Array

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


_Z: Final = 1.959963984540054
"""The two-sided 95% quantile of the normal distribution."""


@dataclass(frozen=True, slots=True)
class Paired:
    """A paired comparison.

    Attributes:
        tasks: how many tasks both ways labelled.
        before: the mean reward of the first way.
        after: that of the second.
        difference: ``after`` − ``before``.
        low: the lower end of the 95% interval of the difference.
        high: the upper end.
        more: how many further tasks would tell the two apart, if the difference stays what it is; 0 if they
            are told apart already, ``None`` if there is no difference at all.
    """

    tasks: int
    before: float
    after: float
    difference: float
    low: float
    high: float
    more: int | None


def compare_paired(rewards: Sequence[tuple[float, float]]) -> Paired | None:
    """Compare two ways by their rewards in [0, 1], one pair for each task; ``None`` without any task.

    The interval is the adjusted Wald interval of Bonett and Price (2012) for paired proportions, which adds
    one task to each kind of discordant pairs. A fractional difference counts by its square.
    """
    tasks = len(rewards)
    if not tasks:
        return None
    total = math.fsum(after - before for before, after in rewards)
    squares = math.fsum((after - before) ** 2 for before, after in rewards)
    larger = tasks + 2.0
    centre = total / larger
    half = _Z * math.sqrt(max((squares + 2.0) / larger - centre**2, 0.0) / larger)
    low, high = max(centre - half, -1.0), min(centre + half, 1.0)
    more: int | None = 0
    if low <= 0.0 <= high:
        more = max(math.ceil(_Z**2 * squares * tasks / total**2) - tasks, 1) if abs(total) > 1e-9 else None
    before = math.fsum(pair[0] for pair in rewards) / tasks
    after = math.fsum(pair[1] for pair in rewards) / tasks
    return Paired(tasks, before, after, total / tasks, low, high, more)


_BETS: Final = np.array([0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9])
_DROPPED: Final = 0.1
"""The probability that a way is ever dropped for another one that is no better; it costs a chance only."""

_ERROR: Final = 0.05
"""The probability that any way is ever proven that is no better than the present one."""


class Race:
    """Which of several ways is better than the present one, and the best of them.

    A way is *proven* once it is shown to be better than the present one, and *dropped* once another is shown
    to be better than it, so that nobody asks about it any more. The probability that any way is ever proven
    that is no better than the present one is at most 5%, over all looks and all ways.

    >>> race = Race(["present", "good", "bad"])
    >>> for task in range(60):
    ...     race.add({"present": task % 2, "good": 1.0, "bad": 0.0})
    ...     if race.is_over:
    ...         break
    >>> race.best, race.dropped, race.tasks
    ('good', ('bad',), 15)

    Args:
        ways: their names, the present one first.
    """

    def __init__(self, ways: Sequence[str]) -> None:
        if len(ways) < 2 or len(set(ways)) < len(ways):
            raise InvalidParameterError("a race takes two ways at least, each with a name of its own")
        self.present, *others = ways
        self.tasks = 0
        self._others = tuple(others)
        self._places = {way: place for place, way in enumerate(ways)}
        self._bar = len(others) / _ERROR
        self._stakes: Array = np.full((len(ways), len(ways), len(_BETS)), 1.0 / len(_BETS))
        self._wealth: list[list[float]] = []
        self._gained = dict.fromkeys(others, 0.0)
        self._proven: set[str] = set()
        self._dropped: dict[str, None] = {}

    @property
    def running(self) -> tuple[str, ...]:
        """The ways whose rewards the next task needs: the present one, and those that are not dropped."""
        return (self.present, *(way for way in self._others if way not in self._dropped))

    @property
    def dropped(self) -> tuple[str, ...]:
        """The ways that another one was shown to be better than, in the order of their ends."""
        return tuple(self._dropped)

    @property
    def proven(self) -> tuple[str, ...]:
        """The ways that are shown to be better than the present one."""
        return tuple(way for way in self._others if way in self._proven)

    @property
    def best(self) -> str:
        """The proven way with the largest gain; the present one while none is proven."""
        left = [way for way in self.proven if way not in self._dropped]
        return max(left, key=lambda way: self._gained[way], default=self.present)

    @property
    def is_over(self) -> bool:
        """Whether further tasks change nothing: at most one way is left, and it is proven."""
        left = self.running[1:]
        return not left or (len(left) == 1 and left[0] in self._proven)

    def add(self, rewards: Mapping[str, float]) -> None:
        """Add the rewards in [0, 1] of the running ways on one more task.

        Tasks are drawn at random, and independently of everything that the ways were made from.

        Raises:
            InvalidParameterError: a running way has no reward, or one outside [0, 1].
        """
        running = self.running
        if not all(0.0 <= rewards.get(way, -1.0) <= 1.0 for way in running):
            raise InvalidParameterError("every running way needs a reward in [0, 1]")
        self.tasks += 1
        places = [self._places[way] for way in running]
        values = np.array([rewards[way] for way in running])
        differences = values[:, None, None] - values[None, :, None]
        self._stakes[np.ix_(places, places)] *= 1.0 + _BETS * differences
        self._wealth = self._stakes.sum(axis=2).tolist()
        for way in running[1:]:
            self._gained[way] += rewards[way] - rewards[self.present]
            if self._beats(way, self.present, self._bar):
                self._proven.add(way)
        for way in running[1:]:
            if any(self._beats(other, way, 1.0 / _DROPPED) for other in self._rivals(way)):
                self._dropped[way] = None

    def _rivals(self, way: str) -> list[str]:
        """The ways that may push a way out. Only a proven one pushes out a proven one."""
        if way in self._proven:
            return [other for other in self.running[1:] if other != way and other in self._proven]
        return [other for other in self.running if other != way]

    def _beats(self, first: str, second: str, bar: float) -> bool:
        return self._wealth[self._places[first]][self._places[second]] >= bar
