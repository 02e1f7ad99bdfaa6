"""Predictions for a Label Studio project from this process, without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from typing import Any

from backend.annotation.job import Job
from backend.annotation.queue.answer import AUDIT, UNREADABLE
from backend.commands.connect.backend_answers import Progress, TaskAnswer, TaskFailure
from backend.commands.label.dataset_jobs import DatasetJobs
from backend.commands.label.labelling import annotate_in_bulk
from backend.commands.label.project.project_tasks import dataset_task
from backend.errors import TaskError
from backend.label_studio.payloads import parse_task
from backend.label_studio.prediction import Prediction
from backend.ledger import failed_tasks
from backend.ledger.money import accounts
from backend.ledger.money.picodollars import from_picodollars
from backend.ledger.reports import counts
from backend.questions import parse_label_config

_MOST = 1_000_000
"""The most failed tasks that are listed."""


class ProjectPredictor:
    """Predicts a project's tasks with the same ledger and learned state as the server; both may run at once.

    Args:
        jobs: says how the tasks are asked about, and in which process.
    """

    def __init__(self, jobs: DatasetJobs) -> None:
        self._jobs, self._process = jobs, jobs.process
        # A task learns from those before it, so a page is not planned as a whole.
        self._slots = asyncio.Semaphore(jobs.settings.tasks_at_once)

    def predict(
        self, project_key: str, label_config: str, tasks: Sequence[Mapping[str, Any]]
    ) -> list[TaskAnswer]:
        """Return for each task its predictions, or why it has none.

        Raises:
            CamvoError: no task can be predicted, as when the ledger is broken.
            KeyboardInterrupt: somebody interrupted; the calls under way have ended.
        """
        config = parse_label_config(label_config)
        thread = self._process.thread
        how = replace(self._jobs, project=project_key, config=config)
        parsed = map(parse_task, tasks)
        jobs = [None if task is None else how.job(dataset_task(*task)) for task in parsed]
        futures = [None if job is None else thread.submit(self._annotate(job)) for job in jobs]
        waiting = [future for future in futures if future is not None]
        try:
            wait(waiting)
        except KeyboardInterrupt:
            self._process.stop_asking()
            wait(waiting, timeout=self._jobs.settings.deadline)
            raise
        return [TaskAnswer([], UNREADABLE) if future is None else _answer(future) for future in futures]

    async def _annotate(self, job: Job) -> Prediction | None:
        async with self._slots:
            return await annotate_in_bulk(self._process.annotator, job)

    def failed_tasks(
        self, project_key: str, first: int = 0, last: int | None = None
    ) -> dict[int, TaskFailure]:
        """Return the tasks in a range of numbers that ended without a prediction."""
        with self._process.ledger.read() as connection:
            listed = failed_tasks.list_between(connection, [project_key], first, last, limit=_MOST)
        return {failed.task: TaskFailure(failed.code, failed.failed_at) for failed in listed}

    def progress(
        self, project_key: str, first: int = 0, last: int | None = None, after: int | None = None
    ) -> Progress:
        """Return how far the project is."""
        with self._process.ledger.read() as connection:
            decided = 0 if after is None else counts.count_tasks(connection, project_key, after, first, last)
            spent = accounts.balance(connection, project_key, accounts.TOTAL).spent
            return Progress(decided, counts.newest(connection, project_key), from_picodollars(spent))


def _answer(future: Future[Prediction | None]) -> TaskAnswer:
    try:
        prediction = future.result()
    except TaskError as error:
        return TaskAnswer([], error.code, error.fix)
    if prediction is None:
        return TaskAnswer([], AUDIT)
    return TaskAnswer([prediction] if isinstance(prediction, dict) else list(prediction))
