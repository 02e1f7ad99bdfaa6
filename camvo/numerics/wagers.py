"""Wagers against a hypothesis: a wealth that stays small for ever if the hypothesis is true.

Whoever bets at fair odds that a hypothesis is wrong gets rich only if it is wrong. If it is true, the wealth
is a nonnegative supermartingale that starts at 1, so it ever reaches 1/α with a probability of at most α
(Ville 1939). The wealth may therefore be looked at after every observation, and acted on as soon as it is
large (an *e-process*: Shafer 2021; Ramdas et al. 2023).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

_PATIENCE = 200.0
"""About how many observations pass before half of the wealth that waits has been moved to some bet."""


class Wager:
    """The wealth of somebody who bets that a hypothesis is wrong from some observation on.

    All of it waits at first. Before each observation a small part of what waits is moved, in equal parts, to
    several bets; each bet then multiplies its part by a factor whose mean is at most 1 under the hypothesis.
    A change late in a long series is noticed nearly as soon as an early one: it costs the logarithm of the
    number of observations before it (*fixed share*: Herbster and Warmuth 1998).

    Args:
        bets: the number of bets.

    Attributes:
        count: the number of observations.
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
        """Settle all bets on one observation.

        Args:
            factors: what one unit on each bet has become, each ≥ 0.
        """
        moved = self._shares[0] / (self.count + _PATIENCE)
        part = moved / len(factors)
        shares = [self._shares[0] - moved]
        shares += [(share + part) * factor for share, factor in zip(self._shares[1:], factors, strict=True)]
        total = sum(shares)
        self._log_total += math.log(total)
        self._shares = [share / total for share in shares]
        self.count += 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Wager) and self.to_list() == other.to_list()

    __hash__ = None  # type: ignore[assignment]

    def to_list(self) -> list[Any]:
        """The wager as plain JSON, bit for bit."""
        return [self.count, self._log_total, self._shares]

    @classmethod
    def from_list(cls, data: list[Any]) -> Wager:
        """Inverse of :meth:`to_list`."""
        count, log_total, shares = data
        wager = cls(len(shares) - 1)
        wager.count, wager._log_total, wager._shares = count, log_total, list(shares)
        return wager


def needed_evidence(level: float, earlier: int) -> float:
    """The evidence at which to raise an alarm, so that a series of tests keeps one level.

    The n-th test of a series gets 6/(π²·n²) of the level; together they get all of it.

    Args:
        level: α, the probability of ever raising a false alarm in the whole series.
        earlier: how many tests of the series ended before this one.
    """
    return math.log(math.pi**2 / 6.0 * (earlier + 1) ** 2 / level)
