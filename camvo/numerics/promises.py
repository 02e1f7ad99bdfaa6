"""Test a promised error rate as one goes, valid at every look."""

from __future__ import annotations

import math
from typing import Any

from camvo.errors import InvalidParameterError
from camvo.numerics.wagers import Wager

_SHIFTS = (0.4, 0.8, 1.6)
"""The bets: the odds of an error are e^0.4, e^0.8 or e^1.6 times as high as promised."""

_SMALLEST = 1e-6
"""Promised errors are raised to this value, so that one unexpected error is never infinite evidence."""


class PromiseTest:
    """Tests that errors are no more frequent than promised, each time with its own promise.

    The hypothesis is that, whatever happened before, an error has at most the promised probability. Whoever
    promises must do so before the outcome is known, and the outcomes that are tested must have been selected
    without looking at them, such as by exploration.

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
        self._wager = Wager(len(_SHIFTS))

    @property
    def tried(self) -> int:
        """The number of outcomes."""
        return self._wager.count

    @property
    def evidence(self) -> float:
        """The natural logarithm of the wealth; at least ln(1/α) with a probability of at most α."""
        return self._wager.evidence

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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PromiseTest) and self.to_list() == other.to_list()

    __hash__ = None  # type: ignore[assignment]

    def to_list(self) -> list[Any]:
        """The test as plain JSON, bit for bit."""
        return [self.right, self.promised, self._wager.to_list()]

    @classmethod
    def from_list(cls, data: list[Any]) -> PromiseTest:
        """Inverse of :meth:`to_list`."""
        test = cls()
        test.right, test.promised, wager = data
        test._wager = Wager.from_list(wager)
        return test
