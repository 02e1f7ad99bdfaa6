"""The answer for one task of a request: its prediction, or why it has none."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import structlog

from backend.annotation.annotator import Annotator
from backend.annotation.job import Job
from backend.errors import TaskError
from backend.label_studio.predictions import Prediction
from backend.models.rates.gate import request_size
from backend.telemetry import metrics, tracing
from camvo.errors import CamvoError

DEADLINE, AUDIT, UNREADABLE, CROWDED, _INTERNAL = "deadline", "audit", "task_unreadable", "busy", "internal"
_NOT_STORED, OUTAGE = "not_stored", "outage"
"""Codes of reasons that are no error of the task."""


@dataclass(frozen=True, slots=True)
class _Reason:
    """Why a task has no prediction, or none for some of its questions."""

    code: str
    message: str
    fix: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The reason in the body of an answer."""
        return {"code": self.code, "message": self.message, "fix": self.fix}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request gets for one of its tasks.

    Attributes:
        prediction: as Label Studio takes it; ``[]`` for none.
        reason: why there is none, or why a question is missing in it.
    """

    prediction: Prediction
    reason: _Reason | None = None


_NOT_READY = Answer([], _Reason(DEADLINE, "models are still at work on it", "ask again"))
_BLIND = Answer([], _Reason(AUDIT, "it is kept blind, so that people label it without seeing a prediction"))
_UNSTORED = Answer([], _Reason(_NOT_STORED, "it is undecided or kept blind, and no model was to be asked"))
_NO_TASK = Answer(
    [],
    _Reason(UNREADABLE, "its id is no 64-bit integer, or its data no object", "send it as Label Studio does"),
)
_TOO_MANY = Answer([], _Reason(CROWDED, "too many tasks are waiting", "ask again later"))


def _failure(error: BaseException) -> Answer:
    """The answer for a task that ended with an error; the text of an unexpected one is withheld."""
    if isinstance(error, CamvoError):
        decided = error.partial if isinstance(error, TaskError) else None
        return Answer(decided or [], _Reason(error.code, error.message, error.fix))
    return Answer([], _Reason(_INTERNAL, "an error in CaMVo", "see CaMVo's log"))


class _Slots:
    """A semaphore with priorities: a request for one task does not wait behind a batch of a thousand."""

    def __init__(self, free: int) -> None:
        self._free = free
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = itertools.count()

    @asynccontextmanager
    async def slot(self, size: int) -> AsyncIterator[None]:
        """Hold a slot during the block. The smallest waiting ``size`` is served first, then the earliest."""
        if self._free > 0:
            self._free -= 1
        else:
            turn = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (size, next(self._arrivals), turn))
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled():
                    self._pass_on()
                raise
        try:
            yield
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        while self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


_BACKGROUND = 1000
"""Jobs that may run or wait after their request was answered; further ones are cancelled."""

_Task: TypeAlias = asyncio.Task[Prediction | None]

_log = structlog.get_logger(__name__)


class JobQueue:
    """The jobs of one process. Used from its event loop only.

    Args:
        annotator: does one job.
        concurrency: jobs worked on at once; jobs of the smallest request go first.
        waiting: says what the calls of jobs wait for; empty if for nothing.
    """

    def __init__(self, annotator: Annotator, concurrency: int, waiting: Callable[[], str] = str) -> None:
        self._annotator, self._waiting = annotator, waiting
        self._slots = _Slots(concurrency)
        self._under_way: dict[tuple[Any, ...], _Task] = {}
        self._background: set[_Task] = set()

    async def answer_request(self, jobs: Sequence[Job | None], deadline: float) -> list[Answer]:
        """Run the jobs of one request and return an answer for each, or the reason why it has none.

        Args:
            jobs: the request's jobs; ``None`` for a task that could not be read.
            deadline: seconds to wait; jobs that are not done then continue in the background.
        """
        tasks = [None if job is None else self._start(job, len(jobs)) for job in jobs]
        waiting = [task for task in tasks if task is not None]
        if waiting:
            await asyncio.wait(waiting, timeout=deadline)
        answers = [self._answer(job, task) for job, task in zip(jobs, tasks, strict=True)]
        self._move_to_background(waiting)
        return answers

    async def drain(self, patience: float) -> None:
        """Wait up to ``patience`` seconds for the jobs under way, then cancel the rest."""
        tasks = list(self._under_way.values())
        if tasks:
            await asyncio.wait(tasks, timeout=patience)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, job: Job, size: int) -> _Task:
        """Start a job, or join the identical one under way: Label Studio sends equal requests in parallel.

        A joined job keeps the ``size`` that it was started with. A task of camvo predict that Label Studio
        asks about meanwhile gets a job of its own, which shares the calls and decides by the deadline; so
        does one that a later run asks about on other terms.
        """
        # Equal settings are one object. Equal configs may be several: threads that parse the same text for
        # the first time together each get their own.
        key = (
            job.project,
            job.task,
            repr(job.data),
            job.config,
            id(job.settings),
            job.stored_only,
            job.hurried,
            job.waits,
            job.again,
            job.purse,
            job.everyone,
            job.below,
        )
        if (task := self._under_way.get(key)) is None:
            task = self._under_way[key] = asyncio.create_task(self._annotate(job, size))
            task.add_done_callback(lambda done: self._remove(key, done))
        return task

    def _remove(self, key: tuple[Any, ...], task: _Task) -> None:
        self._under_way.pop(key, None)
        if not task.cancelled():
            task.exception()  # it is reported already; asyncio would log one that nobody reads again

    async def _annotate(self, job: Job, size: int) -> Prediction | None:
        request_size.set(size)  # the calls of small requests go first
        under_way = metrics.tasks_under_way.labels(project=job.project)
        with tracing.task(job.project, job.task), under_way.track_inprogress():
            async with self._slots.slot(size):
                try:
                    return await self._annotator.annotate(job, alone=size == 1)
                except Exception as error:
                    _report(job, error)
                    raise

    def _move_to_background(self, tasks: Sequence[_Task]) -> None:
        """Let unfinished tasks continue in the background as long as there is room; cancel the others."""
        for task in tasks:
            if task.done() or task in self._background:
                continue
            if len(self._background) < _BACKGROUND:
                self._background.add(task)
                task.add_done_callback(self._background.discard)
            else:
                task.cancel()

    def _answer(self, job: Job | None, task: _Task | None) -> Answer:
        if job is None or task is None:
            metrics.tasks.labels(outcome=UNREADABLE).inc()
            _log.warning("no_prediction", code=UNREADABLE, reason="no id or no data")
            return _NO_TASK
        if not task.done():
            return self._unfinished(job)
        if task.cancelled():
            return _TOO_MANY
        if (error := task.exception()) is not None:
            return _failure(error)
        prediction = task.result()
        if prediction is None and job.stored_only:
            metrics.tasks.labels(outcome=_NOT_STORED).inc()
            return _UNSTORED
        metrics.tasks.labels(outcome=AUDIT if prediction is None else "predicted").inc()
        return _BLIND if prediction is None else Answer(prediction)

    def _unfinished(self, job: Job) -> Answer:
        """The answer for a task that is still worked on, or that waits for a model that is down."""
        awaited = self._waiting() if job.outage_patience is not None else ""
        code = OUTAGE if awaited else DEADLINE
        metrics.tasks.labels(outcome=code).inc()
        _log.info(
            "no_prediction",
            project=job.project,
            task=job.task,
            code=code,
            reason=awaited or "the work goes on",
        )
        if awaited:
            return Answer([], _Reason(OUTAGE, awaited, "ask again, or decide tasks without it by --no-wait"))
        return _NOT_READY


def _report(job: Job, error: Exception) -> None:
    """Log and count a task that lacks a label for one of its questions or for all.

    Of an unexpected error only the type is logged: its text might quote the task.
    """
    code, reason = _INTERNAL, type(error).__name__
    if isinstance(error, CamvoError):
        code, reason = error.code, str(error)
    metrics.tasks.labels(outcome=code).inc()
    log = _log.warning if isinstance(error, TaskError) else _log.error
    event = "question_without_label" if isinstance(error, TaskError) and error.partial else "no_prediction"
    log(event, project=job.project, task=job.task, code=code, reason=reason)
