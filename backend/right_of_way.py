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
        self._latest = threading.Event(), 0.0  # whether it was answered, and until when to wait for that
        self._not_before = 0.0

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Have the loop stand still while the block runs in another thread, for 50 ms at the most."""
        over = threading.Event()
        self._latest = over, time.monotonic() + _LONGEST
        with suppress(RuntimeError):  # the loop is closed: nobody is in the way
            self._loop.call_soon_threadsafe(self.give)
        try:
            yield
        finally:
            over.set()

    def give(self) -> None:
        """Stand still if a request is being answered; the loop also calls it before it asks for more."""
        (over, until), start = self._latest, time.monotonic()
        if start >= self._not_before and not over.is_set():
            over.wait(max(until - start, 0.0))
            end = time.monotonic()
            self._not_before = end + (end - start)
