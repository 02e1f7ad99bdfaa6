"""Several ways of labelling the same tasks, compared task by task until the best is found.

Each comparison of two ways is a bet on the difference of their rewards. A bet of λ on the first multiplies
its stake by 1 + λ·(difference), whose mean is at most 1 if the first is no better, whatever happened before.
So the probability that the wealth ever reaches a bar b is at most 1/b (Ville), and one may look after each
task. The wealth is the mean over a grid of λ (Waudby-Smith and Ramdas 2024, "Estimating means of bounded
random variables by betting").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.typing import Array

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
    def best(self) -> str:
        """The proven way with the largest gain; the present one while none is proven."""
        proven = [way for way in self._others if way in self._proven and way not in self._dropped]
        return max(proven, key=lambda way: self._gained[way], default=self.present)

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
