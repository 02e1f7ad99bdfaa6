"""A circuit breaker: a model that keeps failing is not asked for a while; it rests."""

from __future__ import annotations

import math

from backend.errors import (
    KeyRejectedError,
    ModelError,
    ModelTimeoutError,
    RateLimitedError,
    RejectedError,
    UnavailableError,
)
from backend.models.rate_limits import Clock

_LONGEST_WAIT = 3600.0
"""The longest "retry after" that is honoured, seconds."""


class CircuitBreaker:
    """Whether a model should rest, so that tasks do not wait for a failing model one after another.

    The model rests for a minute in two cases:

    - five failures in a row that do not concern the answer: a timeout, an unavailable provider, a rejected
      key or request. One more failure after the rest starts another minute; an answer ends it.
    - five answers in a row that contained no vote. Such a model earns no reward but would be paid each time.

    Args:
        clock: monotonic seconds.
        patience: the longest "retry after" of a provider, in seconds, for which the model does not rest.
    """

    FAILURES = 5
    SECONDS = 60.0
    COUNTED = (ModelTimeoutError, UnavailableError, KeyRejectedError, RejectedError)

    def __init__(self, clock: Clock, patience: float) -> None:
        self._clock, self._patience = clock, patience
        self._failures = self._unusable = 0
        self._until = self._not_before = self._unusable_until = -math.inf

    @property
    def resting(self) -> bool:
        """Whether the model should not be asked now."""
        now = self._clock()
        return now < max(self._until, self._unusable_until) or self._not_before - now > self._patience

    @property
    def seconds_to_wait(self) -> float:
        """The seconds that the provider still asks to wait; 0 if it does not."""
        return max(0.0, self._not_before - self._clock())

    def answered(self) -> None:
        """Record a call that returned an answer, usable or not."""
        self._failures, self._until = 0, -math.inf

    def judged(self, *, usable: bool) -> None:
        """Record whether an answer contained a vote."""
        self._unusable = 0 if usable else self._unusable + 1
        if self._unusable >= self.FAILURES:
            self._unusable_until = self._clock() + self.SECONDS

    def failed(self, error: ModelError, retry_after: float | None = None) -> None:
        """Record a failed call.

        Args:
            error: why it failed.
            retry_after: the seconds that the provider asks to wait; at most an hour is honoured.
        """
        if retry_after is not None:
            self._not_before = max(self._not_before, self._clock() + min(retry_after, _LONGEST_WAIT))
        if isinstance(error, self.COUNTED):
            self._failures += 1
            if self._failures >= self.FAILURES:
                self._until = self._clock() + self.SECONDS
        elif not isinstance(error, RateLimitedError):
            self.answered()
