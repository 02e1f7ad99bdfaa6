"""What is fitted beside the predictions: the latest fit of each question, and the next one under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import Executor
from typing import Generic, TypeVar

import structlog

from backend.learning.states import StateKey

PAUSE = 10.0
"""Seconds for which the latest is good enough: then it is looked at whether there is something new."""

_T = TypeVar("_T")

_log = structlog.get_logger(__name__)


class Fits(Generic[_T]):
    """The latest fits, by question and kind. Used from one event loop only; ``workers`` do the fitting.

    Args:
        workers: where fits run.
        most: how many are kept; those that were made the longest ago go first.
        failure: what the log calls a fit that failed. The one before it stays.
    """

    def __init__(self, workers: Executor, *, most: int, failure: str) -> None:
        self._workers, self._most, self._failure = workers, most, failure
        self._latest: dict[tuple[StateKey, Hashable], _T] = {}
        self._under_way: dict[tuple[StateKey, Hashable], asyncio.Task[_T]] = {}

    def latest(self, key: StateKey, kind: Hashable = None) -> _T | None:
        """The latest one, ``None`` before the first."""
        return self._latest.get((key, kind))

    def start(self, key: StateKey, fit: Callable[[], _T], kind: Hashable = None) -> asyncio.Task[_T]:
        """The fit that is under way, or a new one. Shield it: others may wait for it, too."""
        if (task := self._under_way.get((key, kind))) is None:
            task = asyncio.create_task(self._run(key, fit, kind))
            self._under_way[key, kind] = task
            task.add_done_callback(lambda done: self._done(key, kind, done))
        return task

    async def settled(self) -> None:
        """Wait until nothing is under way."""
        while self._under_way:
            await asyncio.wait(list(self._under_way.values()))

    async def _run(self, key: StateKey, fit: Callable[[], _T], kind: Hashable) -> _T:
        found = await asyncio.get_running_loop().run_in_executor(self._workers, fit)
        self._latest.pop((key, kind), None)
        self._latest[key, kind] = found
        while len(self._latest) > self._most:
            del self._latest[next(iter(self._latest))]
        return found

    def _done(self, key: StateKey, kind: Hashable, task: asyncio.Task[_T]) -> None:
        del self._under_way[key, kind]
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error(self._failure, project=key.project, control=key.control, kind=type(error).__name__)
