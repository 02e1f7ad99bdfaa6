"""Jobs, a bounded number at a time, until they are done, the money is spent, or somebody interrupts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field

import structlog

from backend.annotation.annotator import Annotator
from backend.annotation.job import Job
from backend.errors import BatchPendingError, BudgetExhaustedError, NoVoteError, TaskError
from backend.label_studio.prediction import Prediction
from backend.models.rates.gate import request_size
from backend.runtime.annotation_process import AnnotationProcess
from backend.telemetry import tracing
from camvo.errors import CamvoError

HOPELESS = 50
"""Tasks on which no model votes, without one that is labelled, after which a run ends."""

_BULK = 1_000_000
"""The size that the calls count as: those of a server in the same process go first."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Labelling:
    """A run's jobs under way.

    Attributes:
        process: annotates them.
        at_once: the most jobs under way; fewer when their reservations exceed the budget.
        labelled: how many jobs were done.
        failed: how many failed, by the code of the reason.
        waiting: how many wait for providers' batches.
        out_of_money: whether the budget does not cover the next task, so that the run ended.
        hopeless: whether the run ended because no model voted on any task.
    """

    process: AnnotationProcess
    at_once: int
    labelled: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    waiting: int = 0
    out_of_money: bool = False
    hopeless: bool = False
    _under_way: dict[Future[Prediction | None], Job] = field(default_factory=dict)
    _short: list[Job] = field(default_factory=list)

    def run(self, jobs: Iterable[Job]) -> Iterator[Job]:
        """Run jobs; each is yielded when it has ended, whether it is labelled or has failed.

        Raises:
            CamvoError: no task can be labelled, as when the ledger is broken.
        """
        for job in jobs:
            while len(self._under_way) >= self.at_once:
                yield from self._ended()
            if self._short:
                yield from self._one_by_one()
            if self.out_of_money or self.hopeless:
                break
            self._start(job)
        yield from self._drained()
        while self._short and not self.out_of_money:
            yield from self._one_by_one()

    def wait(self, seconds: float) -> None:
        """Wait for the jobs under way, as after an interruption."""
        wait(self._under_way, timeout=seconds)

    @property
    def under_way(self) -> int:
        """How many jobs are under way."""
        return sum(not future.done() for future in self._under_way)

    def _start(self, job: Job) -> None:
        self._under_way[self.process.thread.submit(annotate_in_bulk(self.process.annotator, job))] = job

    def _drained(self) -> Iterator[Job]:
        while self._under_way:
            yield from self._ended()

    def _one_by_one(self) -> Iterator[Job]:
        """Try jobs without money again when nothing else is reserved; one that is refused then ends the run.

        Every call reserves the most that it may cost, so many at once reserve far more than they will cost.
        """
        yield from self._drained()
        self.at_once = max(self.at_once // 2, 1)
        short, self._short = self._short, []
        for job in short:
            self._start(job)
            yield from self._drained()
            if self._short:
                self.out_of_money = True
                return

    def _ended(self) -> Iterator[Job]:
        done, _ = wait(self._under_way, return_when=FIRST_COMPLETED)
        for future in done:
            job = self._under_way.pop(future)
            error = future.exception()
            if isinstance(error, BudgetExhaustedError):
                self._short.append(job)
                continue
            self._count(job, error)
            yield job

    def _count(self, job: Job, error: BaseException | None) -> None:
        if error is None:
            self.labelled += 1
            return
        if isinstance(error, BatchPendingError):
            self.waiting += 1
            return
        if isinstance(error, CamvoError) and not isinstance(error, TaskError):
            raise error
        if isinstance(error, TaskError):
            code = error.code
        else:  # the text of an unexpected error might quote the task
            code = "internal"
            _log.error("task_failed", project=job.project, task=job.task, kind=type(error).__name__)
        self.failed[code] += 1
        self.hopeless = not self.labelled and self.failed[NoVoteError.code] >= HOPELESS


async def annotate_in_bulk(annotator: Annotator, job: Job) -> Prediction | None:
    """Annotate a job of a large run, whose calls let those of smaller requests go first.

    Raises:
        TaskError: no prediction is possible.
    """
    request_size.set(_BULK)
    with tracing.task(job.project, job.task):
        return await annotator.annotate(job)
