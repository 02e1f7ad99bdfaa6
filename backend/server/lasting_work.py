"""Work that lasts longer than a request: the client sends the same request again, and gets the result."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

KEPT: Final = 60.0
"""Seconds for which a result waits for the next request, which a client sends at once."""

_Result = TypeVar("_Result")


@dataclass(slots=True)
class _Entry(Generic[_Result]):
    """Work, and when somebody last waited for it."""

    future: Future[_Result]
    asked_at: float


class LastingWork(Generic[_Result]):
    """Work under way, and results that nobody has fetched yet; safe for threads.

    Args:
        deadline: the seconds that a request may take.
        clock: seconds that only grow.
    """

    def __init__(self, deadline: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._deadline, self._clock = deadline, clock
        self._entries: dict[Hashable, _Entry[_Result]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many pieces of work are remembered."""
        return len(self._entries)

    def result(self, asked: Hashable, start: Callable[[], Future[_Result]]) -> _Result:
        """The result of some work, which is started unless it is under way.

        Args:
            asked: what is asked for; equal ones are the same work.
            start: starts it.

        Raises:
            TimeoutError: it was not done by the deadline; it goes on, and the same request gets it.
        """
        with self._lock:
            self._drop_abandoned()
            entry = self._entries.get(asked)
            if entry is None:
                entry = self._entries[asked] = _Entry(start(), self._clock())
        try:
            return entry.future.result(self._deadline)
        finally:
            with self._lock:
                entry.asked_at = self._clock()
                if entry.future.done() and self._entries.get(asked) is entry:
                    del self._entries[asked]

    def _drop_abandoned(self) -> None:
        """Forget the results whose client went away."""
        latest = self._clock() - self._deadline - KEPT
        for asked, entry in list(self._entries.items()):
            if entry.future.done() and entry.asked_at < latest:
                del self._entries[asked]
