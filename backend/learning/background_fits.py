"""This process's background fits: what votes weigh, when to stop asking, and students, beside predictions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from backend.learning.fit_cache import PAUSE, FitCache
from backend.learning.states import COPIES, StateKey
from camvo.policies.background_fits import Fit, FitData, fitted
from camvo.student.student import LEAST_TEXTS, Student, teach
from camvo.student.taught_texts import Lessons


@dataclass(frozen=True, slots=True)
class _Fitted:
    data: FitData
    fit: Fit
    fitted_at: float


class BackgroundFits:
    """The fits of the kept rounds, by question. Used from one event loop only.

    Args:
        workers: the threads that fit.
        clock: returns unix seconds.
    """

    def __init__(self, workers: Executor, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._cache: FitCache[_Fitted] = FitCache(workers, most=COPIES, failure="not_studied")

    async def current(self, key: StateKey, data: FitData) -> Fit:
        """The latest fit of a question; awaits a fit only if the question has none of this kind yet.

        If the data has changed, a new fit starts in the background for later plans, at most one every
        ten seconds: while people label, every plan brings new data. The prices in a fit are those of the
        task that it was made for; tasks of other lengths use the same stopping rule.
        """

        def fit() -> _Fitted:
            return _Fitted(data, fitted(data), self._clock())

        latest = self._cache.latest(key, data.kind)
        if latest is None:
            latest = await asyncio.shield(self._cache.start(key, fit, data.kind))
        elif latest.data.basis != data.basis and self._clock() - latest.fitted_at >= PAUSE:
            self._cache.start(key, fit, data.kind)
        return latest.fit


@dataclass(frozen=True, slots=True)
class _Taught:
    lessons: Lessons
    student: Student | None
    taught_at: float


class Students:
    """The latest student of each question. Used from one event loop only.

    Args:
        workers: the threads that teach.
        clock: returns unix seconds.
    """

    def __init__(self, workers: Executor, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._cache: FitCache[_Taught] = FitCache(workers, most=COPIES, failure="student_not_taught")

    def current(self, key: StateKey, lessons: Lessons) -> Student | None:
        """The latest student; ``None`` before the first. Nobody waits for a student.

        If the lessons have changed, a new one is taught in the background for later plans, at most one every
        ten seconds.
        """
        latest = self._cache.latest(key)
        if latest is None:
            due = len(lessons.texts) >= LEAST_TEXTS
        else:
            due = latest.lessons is not lessons and self._clock() - latest.taught_at >= PAUSE
        if due:
            self._cache.start(key, lambda: _Taught(lessons, teach(lessons), self._clock()))
        return None if latest is None else latest.student

    async def settled(self) -> None:
        """Wait until no student is being taught."""
        await self._cache.settled()
