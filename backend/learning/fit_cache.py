"""Results that are computed in the background: the latest of each question, and the computation under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import Executor
from typing import Generic, TypeVar

import structlog

from backend.learning.states import StateKey

PAUSE = 10.0
"""Seconds after which a result is checked for being out of date."""

_T = TypeVar("_T")

_log = structlog.get_logger(__name__)


class FitCache(Generic[_T]):
    """The latest fits, by question and kind. Used from one event loop only.

    Args:
        workers: the threads that fit.
        most: how many fits are kept; the oldest are dropped first.
        failure: the log event for a fit that fails. The previous fit is kept then.
    """

    def __init__(self, workers: Executor, *, most: int, failure: str) -> None:
        self._workers, self._most, self._failure = workers, most, failure
        self._latest: dict[tuple[StateKey, Hashable], _T] = {}
        self._under_way: dict[tuple[StateKey, Hashable], asyncio.Task[_T]] = {}

    def latest(self, key: StateKey, kind: Hashable = None) -> _T | None:
        """The latest fit; ``None`` before the first."""
        return self._latest.get((key, kind))

    def start(self, key: StateKey, fit: Callable[[], _T], kind: Hashable = None) -> asyncio.Task[_T]:
        """Start a fit, or return the one under way. Shield the task: others may await it too.

        Args:
            key: the question.
            fit: computes the result in a worker thread.
            kind: distinguishes several fits of one question.
        """
        if (task := self._under_way.get((key, kind))) is None:
            task = asyncio.create_task(self._run(key, fit, kind))
            self._under_way[key, kind] = task
            task.add_done_callback(lambda done: self._done(key, kind, done))
        return task

    async def settled(self) -> None:
        """Wait until no fit is under way."""
        while self._under_way:
            await asyncio.wait(list(self._under_way.values()))

    async def _run(self, key: StateKey, fit: Callable[[], _T], kind: Hashable) -> _T:
        result = await asyncio.get_running_loop().run_in_executor(self._workers, fit)
        self._latest.pop((key, kind), None)
        self._latest[key, kind] = result
        while len(self._latest) > self._most:
            del self._latest[next(iter(self._latest))]
        return result

    def _done(self, key: StateKey, kind: Hashable, task: asyncio.Task[_T]) -> None:
        del self._under_way[key, kind]
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error(self._failure, project=key.project, control=key.control, kind=type(error).__name__)
