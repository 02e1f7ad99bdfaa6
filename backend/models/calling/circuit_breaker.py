"""A circuit breaker: a model that keeps failing is not asked for a while; it rests."""

from __future__ import annotations

import math
from collections.abc import Callable

from backend.errors import (
    KeyRejectedError,
    ModelError,
    ModelTimeoutError,
    RateLimitedError,
    RejectedError,
    UnavailableError,
)


class CircuitBreaker:
    """Whether a model should rest, so that tasks do not wait for a failing model one after another.

    The model rests for a minute in two cases:

    - five failures in a row that do not concern the answer: a timeout, an unavailable provider, a rejected
      key or request. One more failure after the rest starts another minute; an answer ends it.
    - five answers in a row that contained no vote. Such a model earns no reward but would be paid each time.

    Args:
        clock: monotonic seconds.
    """

    FAILURES = 5
    SECONDS = 60.0
    COUNTED = (ModelTimeoutError, UnavailableError, KeyRejectedError, RejectedError)

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures = self._unusable = 0
        self._until = self._unusable_until = -math.inf

    @property
    def resting(self) -> bool:
        """Whether the model should not be asked now."""
        return self._clock() < max(self._until, self._unusable_until)

    def answered(self) -> None:
        """Record a call that returned an answer, usable or not."""
        self._failures, self._until = 0, -math.inf

    def judged(self, *, usable: bool) -> None:
        """Record whether an answer contained a vote."""
        self._unusable = 0 if usable else self._unusable + 1
        if self._unusable >= self.FAILURES:
            self._unusable_until = self._clock() + self.SECONDS

    def failed(self, error: ModelError) -> None:
        """Record a failed call."""
        if isinstance(error, self.COUNTED):
            self._failures += 1
            if self._failures >= self.FAILURES:
                self._until = self._clock() + self.SECONDS
        elif not isinstance(error, RateLimitedError):
            self.answered()
