"""Limits per minute: how many requests and tokens one model is sent."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

Clock = Callable[[], float]

MINUTE = 60.0
_ROUNDING = 1e-9


@dataclass(slots=True)
class _Admission:
    at: float
    units: float
    inside: bool = True


class SlidingWindow:
    """At most ``limit`` units in any ``period`` seconds.

    A leaky bucket admits nearly twice the limit in its first period. This window remembers each admission
    with its time instead; there are never more of them than the limit.

    Args:
        limit: units per period. A limit below one stretches the period instead.
        period: seconds.
        clock: monotonic seconds.
    """

    def __init__(self, limit: float, period: float, clock: Clock) -> None:
        stretch = max(1.0, 1.0 / limit)
        self._limit, self._period = limit * stretch, period * stretch
        self._clock = clock
        self._admissions: deque[_Admission] = deque()
        self._total = 0.0

    def wait(self, units: float) -> float:
        """Return the seconds until ``units`` more fit, 0 if they fit now.

        More units than the limit fit into an empty window.
        """
        now = self._clock()
        while self._admissions and self._admissions[0].at + self._period <= now:
            expired = self._admissions.popleft()
            expired.inside = False
            self._total -= expired.units
        if not self._admissions:
            self._total = 0.0  # removes rounding errors
        excess = self._total + min(units, self._limit) - self._limit
        free_at = now
        for admission in self._admissions:
            if excess <= _ROUNDING:
                break
            excess -= admission.units
            free_at = admission.at + self._period
        return free_at - now

    def add(self, units: float) -> _Admission:
        """Admit ``units`` now; the result can be passed to :meth:`correct`."""
        admission = _Admission(self._clock(), units)
        self._admissions.append(admission)
        self._total += units
        return admission

    def correct(self, admission: _Admission, units: float) -> None:
        """Change the number of units of an admission."""
        if admission.inside:
            self._total += units - admission.units
        admission.units = units


class RateLimits:
    """Requests and tokens per minute of one model, first come, first served.

    Args:
        rpm: requests per minute; ``None`` for no limit.
        tpm: tokens per minute; ``None`` for no limit.
        clock: monotonic seconds.
    """

    def __init__(self, rpm: float | None, tpm: float | None, clock: Clock) -> None:
        self._requests = None if rpm is None else SlidingWindow(rpm, MINUTE, clock)
        self._tokens = None if tpm is None else SlidingWindow(tpm, MINUTE, clock)
        self._turn = asyncio.Lock()

    async def enter(self, tokens: float) -> Callable[[float], None]:
        """Wait until one request of ``tokens`` tokens fits, and count it.

        Returns:
            A function to call with the actual number of tokens.
        """
        wanted = [(w, u) for w, u in ((self._requests, 1.0), (self._tokens, tokens)) if w is not None]
        async with self._turn:
            while (wait := max((w.wait(units) for w, units in wanted), default=0.0)) > 0:  # noqa: ASYNC110
                await asyncio.sleep(wait)  # only time makes room, so there is no event to wait for
            admissions = {window: window.add(units) for window, units in wanted}

        def correct_tokens(actual: float) -> None:
            if self._tokens is not None:
                self._tokens.correct(admissions[self._tokens], actual)

        return correct_tokens
