"""This process's students, by question: taught beside the predictions, from the texts in the ledger."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from backend.learning.fit_cache import PAUSE, FitCache
from backend.learning.states import COPIES, StateKey
from camvo.student.student import LEAST_TEXTS, Student, teach
from camvo.student.taught_texts import Lessons


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
