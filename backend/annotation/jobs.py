"""Jobs under way: identical ones are one, late ones go on, and each request gets an answer for every task."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, TypeAlias

import structlog

from backend.annotation.annotator import Annotator
from backend.annotation.recording import Job
from backend.annotation.slots import Slots
from backend.errors import TaskError
from backend.label_studio.prediction import Prediction
from backend.telemetry import metrics
from camvo.errors import CamvoError

BACKGROUND = 1000
"""Tasks that may go on, or wait their turn, after their request was answered; more are dropped."""

_GLANCE = 0.3
"""Seconds in which stored predictions are looked up."""

_Task: TypeAlias = asyncio.Task[Prediction | None]

_log = structlog.get_logger(__name__)


class Jobs:
    """The jobs of one process. Used from its event loop only.

    Args:
        annotator: does one job.
        concurrency: jobs worked on at once; those of the smallest request first.
    """

    def __init__(self, annotator: Annotator, concurrency: int) -> None:
        self._annotator = annotator
        self._slots = Slots(concurrency)
        self._under_way: dict[tuple[Any, ...], _Task] = {}
        self._background: set[_Task] = set()

    async def run(self, jobs: Sequence[Job | None], deadline: float | None) -> list[Prediction]:
        """One answer for each job, after ``deadline`` seconds at the latest; ``None`` stands for no job.

        Without a deadline the process is too busy for anybody to wait: what is in the ledger is answered, the
        rest goes on in the background.
        """
        tasks = [None if job is None else self._start(job, len(jobs)) for job in jobs]
        waiting = [task for task in tasks if task is not None]
        if waiting:
            await asyncio.wait(waiting, timeout=_GLANCE if deadline is None else deadline)
        late = "busy" if deadline is None else "deadline"
        answers = [self._answer(job, task, late) for job, task in zip(jobs, tasks, strict=True)]
        self._let_go(waiting)
        return answers

    async def drain(self, patience: float) -> None:
        """Wait up to ``patience`` seconds for what is under way, then give the rest up."""
        tasks = list(self._under_way.values())
        if tasks:
            await asyncio.wait(tasks, timeout=patience)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, job: Job, size: int) -> _Task:
        """Begin a job, or join the identical one under way: Label Studio asks the same in parallel.

        It goes on as it was begun: a task of a batch that is opened meanwhile is asked about in stages.
        """
        # Equal settings are one object. Equal configs need not be: threads that parse the same text for the
        # first time together each get their own.
        key = (job.project, job.task, repr(job.data), job.config, id(job.settings))
        if (task := self._under_way.get(key)) is None:
            task = self._under_way[key] = asyncio.create_task(self._annotate(job, size))
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
        return task

    async def _annotate(self, job: Job, size: int) -> Prediction | None:
        with metrics.tasks_under_way.labels(project=job.project).track_inprogress():
            async with self._slots.taken(size):
                try:
                    return await self._annotator.annotate(job, alone=size == 1)
                except Exception as error:
                    _report(job, error)
                    raise

    def _let_go(self, tasks: Sequence[_Task]) -> None:
        """Let late tasks go on in the background, as many as there is room for."""
        for task in tasks:
            if task.done() or task in self._background:
                continue
            if len(self._background) < BACKGROUND:
                self._background.add(task)
                task.add_done_callback(self._background.discard)
            else:
                task.cancel()

    @staticmethod
    def _answer(job: Job | None, task: _Task | None, late: str) -> Prediction:
        if job is None or task is None:
            metrics.tasks.labels(outcome="task_unreadable").inc()
            _log.warning("no_prediction", code="task_unreadable", reason="no id or no data")
            return []
        if not task.done():
            metrics.tasks.labels(outcome=late).inc()
            _log.info("no_prediction", project=job.project, task=job.task, code=late, reason="work goes on")
            return []
        if task.cancelled() or task.exception() is not None:
            return []
        prediction = task.result()
        metrics.tasks.labels(outcome="audit" if prediction is None else "predicted").inc()
        return prediction or []


def _report(job: Job, error: Exception) -> None:
    """Log and count a task without a prediction; an unforeseen error's text might quote the task."""
    code, reason = "internal", type(error).__name__
    if isinstance(error, CamvoError):
        code, reason = error.code, str(error)
    metrics.tasks.labels(outcome=code).inc()
    log = _log.warning if isinstance(error, TaskError) else _log.error
    log("no_prediction", project=job.project, task=job.task, code=code, reason=reason)
