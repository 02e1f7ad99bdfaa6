"""Lanes: requests of one urgency have threads of their own, and never wait behind another lane's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

_AT_ONCE = frozenset({"/", "/health"})
_URGENT = frozenset({"/webhook", "/setup", "/versions", "/ready"})
_REPORTS = frozenset({"/status", "/metrics", "/progress", "/failed"})

_URGENT_THREADS = 8
_REPORT_THREADS = 2
_WAITING = 500
"""Requests that may wait for a thread of the urgent lane or of the lane of reports."""


class Lane:
    """The threads for one kind of request.

    Args:
        name: names the threads.
        threads: how many requests are served at once.
        waiting: how many further ones may wait for a thread.
    """

    def __init__(self, name: str, threads: int, waiting: int = 0) -> None:
        self._places = threads + waiting
        self._taken = 0
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=f"camvo-{name}")
        # All threads start now: under load each start would keep the main thread waiting for milliseconds.
        started = threading.Event()
        for _ in range(threads):
            self._threads.submit(started.wait)
        started.set()

    @property
    def is_full(self) -> bool:
        """Whether a further request would find no place."""
        return self._taken >= self._places

    def submit(self, serve: Callable[[Any], bool], connection: object) -> Future[bool]:
        """Serve a connection's request in a thread; call :meth:`leave` when it is done."""
        self._taken += 1
        return self._threads.submit(serve, connection)

    def leave(self) -> None:
        """Give a request's place back."""
        self._taken -= 1

    def shutdown(self, *, wait: bool) -> None:
        """Start no further request; those in threads go on."""
        self._threads.shutdown(wait=wait)


class Lanes:
    """All lanes of a worker process. Used from its main thread only.

    Args:
        predictions: how many predictions may wait for models at once, each in a thread.
    """

    def __init__(self, predictions: int) -> None:
        self.urgent = Lane("urgent", _URGENT_THREADS, _WAITING)
        self.reports = Lane("reports", _REPORT_THREADS, _WAITING)
        self.predictions = Lane("predict", predictions)

    def lane_of(self, target: str) -> Lane | None:
        """The lane for a request's target; ``None`` if it is answered at once, without a thread.

        Targets are compared as they were sent. Any other spelling of one takes a prediction's place, so that
        nobody gets a prediction into the urgent lane.
        """
        if target in _AT_ONCE:
            return None
        if target in _URGENT:
            return self.urgent
        return self.reports if target in _REPORTS else self.predictions

    def shutdown(self, *, wait: bool) -> None:
        """Start no further request in any lane. gunicorn calls this as it would an executor's method."""
        for lane in (self.urgent, self.reports, self.predictions):
            lane.shutdown(wait=wait)


def endpoint_of(target: str) -> str:
    """The target as a metric's label: an endpoint of ours, or "unknown"."""
    return target if target in _AT_ONCE | _URGENT | _REPORTS | {"/predict"} else "unknown"
