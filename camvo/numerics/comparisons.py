"""Ways of labelling the same tasks, compared task by task: two of them, or several until the best is found.

Each comparison of two ways is a bet on the difference of their rewards. A bet of λ on the first multiplies
its stake by 1 + λ·(difference), whose mean is at most 1 if the first is no better, whatever happened before.
So the probability that the wealth ever reaches a bar b is at most 1/b (Ville), and one may look after each
task. The wealth is the mean over a grid of λ (Waudby-Smith and Ramdas 2024, "Estimating means of bounded
random variables by betting").
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.typing import Array

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


class Race:
    """Which of several ways is better than the present one, and the best of them.

    A way is *proven* once it is shown to be better than the present one, and *dropped* once another is shown
    to be better than it, so that nobody asks about it any more. The probability that any way is ever proven
    that is no better than the present one is at most ``level``, over all looks and all ways.

    >>> race = Race(["present", "good", "bad"])
    >>> for task in range(60):
    ...     race.add({"present": task % 2, "good": 1.0, "bad": 0.0})
    ...     if race.is_over:
    ...         break
    >>> race.best, race.dropped, race.tasks
    ('good', ('bad',), 15)

    Args:
        ways: their names, the present one first.
        level: see above.
    """

    def __init__(self, ways: Sequence[str], level: float = 0.05) -> None:
        if len(ways) < 2 or len(set(ways)) < len(ways):
            raise InvalidParameterError("a race takes two ways at least, each with a name of its own")
        self.present, *others = ways
        self.tasks = 0
        self._others = tuple(others)
        self._places = {way: place for place, way in enumerate(ways)}
        self._bar = len(others) / level
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
