"""Requests that Label Studio waits for: the event loop pauses while one is answered.

Python runs one thread at a time. Under a batch the event loop always has something to compute. A thread that
writes to the ledger would wait for the loop at every statement, so that a write of one or two milliseconds
would take tens of them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_LONGEST = 0.05
"""Seconds after which the loop goes on, even if the request is not answered."""


class UrgentRequests:
    """The urgent requests of one process, and the event loop that pauses for them.

    Args:
        loop: the event loop. It pauses at most half of the time, however many requests arrive.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._open: set[tuple[threading.Event, float]] = set()  # set once answered; when to stop waiting
        self._lock = threading.Lock()
        self._not_before = 0.0

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Pause the loop while the block runs in another thread, for 50 ms at most."""
        request = threading.Event(), time.monotonic() + _LONGEST
        with self._lock:
            self._open.add(request)
        with suppress(RuntimeError):  # the loop is closed and computes nothing
            self._loop.call_soon_threadsafe(self.give_way)
        try:
            yield
        finally:
            with self._lock:
                self._open.discard(request)
            request[0].set()

    def give_way(self) -> None:
        """Wait until the open requests are answered. Called on the loop, for each request and each write."""
        start = time.monotonic()
        with self._lock:
            requests = [*self._open]
        if requests and start >= self._not_before:
            for answered, until in requests:
                answered.wait(max(until - time.monotonic(), 0.0))
            end = time.monotonic()
            self._not_before = end + (end - start)
