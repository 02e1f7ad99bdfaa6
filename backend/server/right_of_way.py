"""An event loop that stands still while a request is answered that somebody is waiting for.

Python runs one thread at a time. Under a batch the loop always has something to compute, and whoever writes
to the ledger would wait for it at every statement, which makes tens of milliseconds of one or two.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_LONGEST = 0.05
"""Seconds after which the loop goes on, whatever becomes of the request."""


class RightOfWay:
    """What one process's requests have over its event loop.

    Args:
        loop: what is to stand still. It does so for half of the time at the most, however many requests come.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._open: set[tuple[threading.Event, float]] = set()  # when it is answered, and until when to wait
        self._door = threading.Lock()
        self._not_before = 0.0

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Have the loop stand still while the block runs in another thread, for 50 ms at the most."""
        request = threading.Event(), time.monotonic() + _LONGEST
        with self._door:
            self._open.add(request)
        with suppress(RuntimeError):  # the loop is closed: nobody is in the way
            self._loop.call_soon_threadsafe(self.give)
        try:
            yield
        finally:
            with self._door:
                self._open.discard(request)
            request[0].set()

    def give(self) -> None:
        """Stand still while requests are answered: on the loop, when one comes and before each write."""
        start = time.monotonic()
        with self._door:
            waiting = [*self._open]
        if waiting and start >= self._not_before:
            for answered, until in waiting:
                answered.wait(max(until - time.monotonic(), 0.0))
            end = time.monotonic()
            self._not_before = end + (end - start)
