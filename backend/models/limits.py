"""What keeps a model from being asked too much: limits per minute, and rest after failures."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from backend.errors import (
    KeyRejectedError,
    ModelError,
    ModelTimeoutError,
    RateLimitedError,
    RejectedError,
    UnavailableError,
)

Clock = Callable[[], float]

MINUTE = 60.0
_ROUNDING = 1e-9
_LONGEST_WAIT = 3600.0


@dataclass(slots=True)
class _Passage:
    at: float
    units: float
    inside: bool = True


class Window:
    """At most ``limit`` units in any ``period`` seconds.

    A leaky bucket would let nearly twice the limit through in its first period; this remembers what it let
    through and when, which is never more entries than the limit.

    Args:
        limit: units per period; a fraction of one stretches the period instead.
        period: seconds.
        clock: monotonic seconds.
    """

    def __init__(self, limit: float, period: float, clock: Clock) -> None:
        stretch = max(1.0, 1.0 / limit)
        self._limit, self._period = limit * stretch, period * stretch
        self._clock = clock
        self._passages: deque[_Passage] = deque()
        self._total = 0.0

    def wait(self, units: float) -> float:
        """Seconds until ``units`` more fit, 0 for now; more than the limit fit into an empty window."""
        now = self._clock()
        while self._passages and self._passages[0].at + self._period <= now:
            left = self._passages.popleft()
            left.inside = False
            self._total -= left.units
        if not self._passages:
            self._total = 0.0  # nothing of the rounding stays
        excess = self._total + min(units, self._limit) - self._limit
        free_at = now
        for passage in self._passages:
            if excess <= _ROUNDING:
                break
            excess -= passage.units
            free_at = passage.at + self._period
        return free_at - now

    def add(self, units: float) -> _Passage:
        """Count ``units`` as let through now; what is returned is for :meth:`correct`."""
        passage = _Passage(self._clock(), units)
        self._passages.append(passage)
        self._total += units
        return passage

    def correct(self, passage: _Passage, units: float) -> None:
        """Count other ``units`` for what was let through."""
        if passage.inside:
            self._total += units - passage.units
        passage.units = units


class Limits:
    """Requests and tokens per minute of one model, first come, first served.

    Args:
        rpm: requests per minute, ``None`` without limit.
        tpm: tokens per minute, ``None`` without limit.
        clock: monotonic seconds.
    """

    def __init__(self, rpm: float | None, tpm: float | None, clock: Clock) -> None:
        self._requests = None if rpm is None else Window(rpm, MINUTE, clock)
        self._tokens = None if tpm is None else Window(tpm, MINUTE, clock)
        self._turn = asyncio.Lock()

    async def enter(self, tokens: float) -> Callable[[float], None]:
        """Wait for room for one request of so many tokens, and take it.

        Returns:
            To be called with the tokens that it turned out to be.
        """
        wanted = [(w, u) for w, u in ((self._requests, 1.0), (self._tokens, tokens)) if w is not None]
        async with self._turn:
            while (wait := max((w.wait(units) for w, units in wanted), default=0.0)) > 0:  # noqa: ASYNC110
                await asyncio.sleep(wait)  # for a time, not for an event
            passages = {window: window.add(units) for window, units in wanted}

        def used(tokens: float) -> None:
            if self._tokens is not None:
                self._tokens.correct(passages[self._tokens], tokens)

        return used


class Rest:
    """A model that keeps failing rests, so that tasks do not wait for it one after another.

    Five failures in a row that are not about the answer itself (timeouts, unavailable, key or request
    rejected) bring a minute's rest; a further failure after it another minute; an answer ends it. So do five
    answers in a row that were no vote: such a model earns no reward, and would be asked and paid for ever.

    Args:
        clock: monotonic seconds.
        patience: how long, in seconds, a provider's "retry after" may be for the model to count as awake.
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
        """Whether the model is better left alone now."""
        now = self._clock()
        return now < max(self._until, self._unusable_until) or self._not_before - now > self._patience

    @property
    def seconds_to_wait(self) -> float:
        """Seconds the provider still asks to wait; 0 when it does not."""
        return max(0.0, self._not_before - self._clock())

    def answered(self) -> None:
        """A call came back with an answer, good or bad."""
        self._failures, self._until = 0, -math.inf

    def judged(self, *, usable: bool) -> None:
        """Whether an answer was a vote."""
        self._unusable = 0 if usable else self._unusable + 1
        if self._unusable >= self.FAILURES:
            self._unusable_until = self._clock() + self.SECONDS

    def failed(self, error: ModelError, retry_after: float | None = None) -> None:
        """A call failed; ``retry_after`` is what the provider asks for, in seconds (an hour at most)."""
        if retry_after is not None:
            self._not_before = max(self._not_before, self._clock() + min(retry_after, _LONGEST_WAIT))
        if isinstance(error, self.COUNTED):
            self._failures += 1
            if self._failures >= self.FAILURES:
                self._until = self._clock() + self.SECONDS
        elif not isinstance(error, RateLimitedError):
            self.answered()
