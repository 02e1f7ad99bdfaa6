"""Results that are computed in the background: the latest of each question, and the computation under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

from backend.learning.states import COPIES, StateKey
from backend.ledger import Ledger
from backend.ledger.database.writer import outlast
from backend.ledger.learning_data import LearningRounds
from camvo.policies.policy import Fit, FitData, fitted
from camvo.scores import calibration
from camvo.scores.calibration import GROWTH, Scorer
from camvo.student.student import LEAST_TEXTS, Student, teach
from camvo.student.taught_texts import Lessons

PAUSE = 10.0
"""Seconds after which a result is checked for being out of date."""

_T = TypeVar("_T")

_log = structlog.get_logger(__name__)


class FitCache(Generic[_T]):
    """The latest fits, by question and kind. Used from one event loop only."""

    def __init__(self, workers: Executor, *, most: int, failure: str) -> None:
        self._workers, self._most, self._failure = workers, most, failure
        self._latest: dict[tuple[StateKey, Hashable], _T] = {}
        self._under_way: dict[tuple[StateKey, Hashable], asyncio.Task[_T]] = {}

    def latest(self, key: StateKey, kind: Hashable = None) -> _T | None:
        """The latest fit; ``None`` before the first."""
        return self._latest.get((key, kind))

    def start(self, key: StateKey, fit: Callable[[], _T], kind: Hashable = None) -> asyncio.Task[_T]:
        """Start a fit, or return the one under way. Shield the task: others may await it too."""
        if (task := self._under_way.get((key, kind))) is None:
            task = asyncio.create_task(self._run(key, fit, kind))
            self._under_way[key, kind] = task
            task.add_done_callback(lambda done: self._done(key, kind, done))
        return task

    async def settled(self) -> None:
        """Wait until no fit is under way."""
        while self._under_way:
            await asyncio.wait(list(self._under_way.values()))  # until the fits end

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


@dataclass(frozen=True, slots=True)
class _Fitted:
    data: FitData
    fit: Fit
    fitted_at: float


class BackgroundFits:
    """The fits of the kept rounds, by question. Used from one event loop only."""

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
    """The latest student of each question. Used from one event loop only."""

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


_MOST = 256
"""Scorers kept in memory; each takes a few kilobytes."""


@dataclass(frozen=True, slots=True)
class _FittedScorer:
    scorer: Scorer
    rounds: int
    confirmed: int
    checked_at: float


class Scorers:
    """The scorers, by question. Used from one event loop only."""

    def __init__(self, ledger: Ledger, readers: Executor, *, clock: Callable[[], float]) -> None:
        self._ledger, self._clock = ledger, clock
        self._cache: FitCache[_FittedScorer] = FitCache(readers, most=_MOST, failure="scores_not_fitted")

    async def current(self, key: StateKey, arms: Sequence[str], labels: Sequence[str]) -> Scorer:
        """The latest scorer of a question; awaits a fit only for the first one, or if a model is new to it.

        Later rounds are learnt in the background, for the predictions after this one.
        """
        latest = self._cache.latest(key)
        if latest is None or not set(arms) <= set(latest.scorer.panel.arms):
            latest = await outlast(
                lambda: asyncio.shield(self._cache.start(key, lambda: self._fit(key, arms, labels, None)))
            )
        elif self._clock() - latest.checked_at >= PAUSE:
            self._cache.start(key, lambda: self._fit(key, arms, labels, latest))
        return latest.scorer

    def _fit(
        self, key: StateKey, arms: Sequence[str], labels: Sequence[str], latest: _FittedScorer | None
    ) -> _FittedScorer:
        now = self._clock()
        with self._ledger.read() as connection:
            rounds, confirmed = LearningRounds(connection, key.project, key.control, key.epoch).count()
            if latest is not None and not (
                _grown(rounds, latest.rounds) or _grown(confirmed, latest.confirmed)
            ):
                return _FittedScorer(latest.scorer, latest.rounds, latest.confirmed, now)
            newest = LearningRounds(connection, key.project, key.control, key.epoch).latest()
        all_arms = sorted({*arms, *(arm for round_ in newest for arm in round_.votes)})
        return _FittedScorer(calibration.Scorer.fit(newest, all_arms, labels), rounds, confirmed, now)


def _grown(now: int, before: int) -> bool:
    return abs(now - before) > GROWTH * before
