"""Scripted quotas of providers: whether a request at some time is accepted."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Collection
from typing import Protocol


class QuotaProvider(Protocol):
    """A provider that accepts ``quota`` requests per window; the quota may change at any time."""

    quota: float

    def accepts(self, now: float) -> bool:
        """Return whether a request is accepted, and count it if so."""
        ...


class FixedWindow:
    """Counts within windows that begin at multiples of their length."""

    def __init__(self, quota: float, window: float = 60.0) -> None:
        self.quota, self._window = quota, window
        self._number, self._count = -1, 0

    def accepts(self, now: float) -> bool:
        """See :class:`QuotaProvider`."""
        number = int(now / self._window)
        if number != self._number:
            self._number, self._count = number, 0
        if self._count + 1 > self.quota:
            return False
        self._count += 1
        return True


class TrailingWindow:
    """Counts what was accepted in the window that ends now."""

    def __init__(self, quota: float, window: float = 60.0) -> None:
        self.quota, self._window = quota, window
        self._times: deque[float] = deque()

    def accepts(self, now: float) -> bool:
        """See :class:`QuotaProvider`."""
        while self._times and self._times[0] <= now - self._window:
            self._times.popleft()
        if len(self._times) + 1 > self.quota:
            return False
        self._times.append(now)
        return True


class TokenBucket:
    """A bucket that refills evenly, and holds a share of the quota at most."""

    def __init__(self, quota: float, window: float = 60.0, *, capacity: float = 1.0) -> None:
        self.quota, self._window, self._capacity = quota, window, capacity
        self._level, self._at = quota * capacity, -1.0

    def accepts(self, now: float) -> bool:
        """See :class:`QuotaProvider`."""
        most = max(1.0, self.quota * self._capacity)
        if self._at >= 0.0:
            self._level += self.quota * (now - self._at) / self._window
        self._level, self._at = min(self._level, most), now
        if self._level < 1.0 - 1e-9:
            return False
        self._level -= 1.0
        return True


class Sporadic:
    """Refuses a share of the calls at random, whatever their rate, beside another provider's quota."""

    def __init__(self, inner: QuotaProvider, share: float, seed: int = 0) -> None:
        self._inner, self.share, self.quota = inner, share, inner.quota
        self._random = random.Random(seed)  # noqa: S311 - refusals, not secrets

    def accepts(self, now: float) -> bool:
        """See :class:`QuotaProvider`."""
        return self._random.random() >= self.share and self._inner.accepts(now)


class RefusedCalls:
    """Refuses the calls with some numbers, counted from 1, and no others."""

    quota = math.inf

    def __init__(self, numbers: Collection[int]) -> None:
        self._numbers, self._count = numbers, 0

    def accepts(self, now: float) -> bool:
        """See :class:`QuotaProvider`."""
        self._count += 1
        return self._count not in self._numbers
