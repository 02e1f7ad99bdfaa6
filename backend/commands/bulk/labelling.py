"""Jobs, a bounded number at a time, until they are done, the money is spent, or somebody interrupts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import partial
from itertools import islice
from typing import Any, Final

import structlog
from rich.console import Console

from backend.annotation.annotator import Annotator
from backend.annotation.job import Job, random_draw
from backend.commands.bulk.batch_run import BatchRun
from backend.commands.bulk.dataset_jobs import DatasetJobs, Stored
from backend.commands.shared.output import Advance, progress_bar, say, to_come
from backend.datasets.tasks import DatasetTask, IndexedTasks
from backend.errors import BatchPendingError, BudgetExhaustedError, NoVoteError, TaskError
from backend.label_studio.predictions import Prediction
from backend.ledger import Ledger, money
from backend.ledger.batches import WaitingTasks
from backend.ledger.database.statements import portions
from backend.ledger.missing_votes import Mark
from backend.ledger.money import from_picodollars
from backend.models.rates.gate import request_size
from backend.questions import ConfigQuestion
from backend.questions.question import policy_for
from backend.runtime import AnnotationProcess
from backend.server.status.formats import of, verb_of
from backend.server.status.missing import Ending, Missing, missing_of
from backend.server.status.work import SAME_COMMAND
from backend.settings import Settings
from backend.telemetry import tracing
from backend.threads import WorkUnderWay
from camvo.errors import CamvoError

_HOPELESS = 50
"""Tasks on which no model votes, without one that is labelled, after which a run ends."""

_BULK = 1_000_000
"""The size that the calls count as: those of a server in the same process go first."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class RunCounts:
    """Counts of a run, or of one of its parts. Rows of equal content are one task.

    ``partly`` counts those among the ``failed`` with a label for another question.
    """

    rows: int = 0
    tasks: int = 0
    labelled: int = 0
    labelled_before: int = 0
    left_out: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    out_of_money: bool = False
    hopeless: bool = False
    waiting: int = 0
    partly: int = 0

    def __add__(self, other: RunCounts) -> RunCounts:
        """The counts of two parts of a run together; what holds of one part holds of both."""
        sums: dict[str, Any] = {}
        for name in (each.name for each in fields(self)):
            one, two = getattr(self, name), getattr(other, name)
            sums[name] = one or two if isinstance(one, bool) else one + two
        return RunCounts(**sums)

    @property
    def left(self) -> int:
        """How many tasks the run has not finished or, if it ended early, has not come to."""
        done = self.labelled_before + self.left_out + self.labelled + self.failed.total()
        return self.tasks - done

    def summary(self, spent: float) -> str:
        """A line with what was done, and a line for each problem that may need action."""
        partly = f", {self.partly:,} more for some of their questions" if self.partly else ""
        lines = [
            f"{self.labelled:,} of {of(self.tasks, 'task')} labelled now and {self.labelled_before:,}"
            f" before{partly} ({of(self.rows, 'row')}); the project has cost ${spent:.4f}"
        ]
        if self.out_of_money:
            lines.append("the budget does not cover the next task: raise it, and run the same command again")
        if self.hopeless:
            lines.append("the run ended early, because no model voted on any task")
        if self.waiting:
            lines.append(f"{of(self.waiting, 'task', 'wait')} for providers' batches")
        if left := self.left - self.waiting:
            lines.append(
                f"{of(left, 'task', 'were')} not reached or {verb_of(left, 'have')} no label:"
                " the same command continues with them"
            )
        return "\n".join(lines)


@dataclass(slots=True)
class Labelling:
    """A run's jobs under way."""

    process: AnnotationProcess
    at_once: int
    counts: RunCounts = field(default_factory=RunCounts)
    voteless: int = 0
    _under_way: WorkUnderWay[Job, Prediction | None] = field(init=False)
    _short: list[Job] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Nothing is under way."""
        self._under_way = WorkUnderWay(self.process.thread.submit)

    def run(self, jobs: Iterable[Job]) -> Iterator[Job]:
        """Run jobs; each is yielded when it has ended, whether it is labelled or has failed."""
        for job in jobs:
            while len(self._under_way) >= self._most_under_way:
                yield from self._ended()
            if self._short:
                yield from self._one_by_one()
            if self.counts.out_of_money or self.counts.hopeless:
                break
            self._start(job)
        yield from self._drained()
        while self._short and not self.counts.out_of_money:
            yield from self._one_by_one()

    def wait(self, seconds: float) -> None:
        """Wait for the jobs under way, as after an interruption, and count those that get a label."""
        for _, result in self._under_way.remaining(seconds):
            self.counts.labelled += result.exception() is None

    @property
    def under_way(self) -> int:
        """How many jobs are under way."""
        return self._under_way.not_ended

    @property
    def _most_under_way(self) -> int:
        doubtful = self.voteless and not self.counts.labelled
        return min(self.at_once, max(_HOPELESS - self.voteless, 1)) if doubtful else self.at_once

    def _start(self, job: Job) -> None:
        self._under_way.start(job, annotate_in_bulk(self.process.annotator, job))

    def _drained(self) -> Iterator[Job]:
        while self._under_way:
            yield from self._ended()

    def _one_by_one(self) -> Iterator[Job]:
        """Try jobs without money again when nothing else is reserved; one that is refused then ends the run.

        Every call reserves the most that it may cost, so parallel calls reserve far more than they will cost.
        """
        yield from self._drained()
        self.at_once = max(self.at_once // 2, 1)
        short, self._short = self._short, []
        for job in short:
            self._start(job)
            yield from self._drained()
            if self._short:
                self.counts.out_of_money = True
                return

    def _ended(self) -> Iterator[Job]:
        job, result = self._under_way.next_ended()
        error = result.exception()
        if isinstance(error, BudgetExhaustedError):
            self._short.append(job)
            return
        self._count(job, error)
        yield job

    def _count(self, job: Job, error: BaseException | None) -> None:
        counts = self.counts
        if error is None:
            counts.labelled += 1
            return
        if isinstance(error, BatchPendingError):
            counts.waiting += 1
            return
        if isinstance(error, CamvoError) and not isinstance(error, TaskError):
            raise error
        if isinstance(error, TaskError):
            code = error.code
            counts.partly += error.partial is not None
        else:  # the text of an unexpected error might quote the task
            code = "internal"
            _log.error("task_failed", project=job.project, task=job.task, kind=type(error).__name__)
        counts.failed[code] += 1
        self.voteless += isinstance(error, NoVoteError) and error.partial is None
        counts.hopeless = not counts.labelled and self.voteless >= _HOPELESS


async def annotate_in_bulk(annotator: Annotator, job: Job) -> Prediction | None:
    """Annotate a job of a large run, whose calls let those of smaller requests go first."""
    request_size.set(_BULK)
    with tracing.task(job.project, job.task):
        return await annotator.annotate(job)


_EVERY = 1.0
"""Seconds between two looks at the ledger."""


class Spending:
    """A project in the ledger from the start of a run: what it has cost, and what is missing."""

    def __init__(self, ledger: Ledger, project: str) -> None:
        self._ledger, self._project = ledger, project
        with ledger.read() as connection:
            self._start = Mark.now(connection)
        self._started_with = self._latest = self.in_all()
        self._looked_at = time.monotonic()

    def in_all(self) -> float:
        """What the project has cost over all runs, in $."""
        with self._ledger.read() as connection:
            return from_picodollars(money.balance(connection, self._project, money.TOTAL).spent)

    def _in_this_run(self) -> float:
        """What it has cost since the start of the run, in $; a second old at most."""
        if time.monotonic() - self._looked_at >= _EVERY:
            self._latest, self._looked_at = self.in_all(), time.monotonic()
        return self._latest - self._started_with

    def of_dropped_calls(self) -> list[str]:
        """What the calls that nobody awaits any more may cost, in a line; none without any."""
        with self._ledger.read() as connection:
            usd = from_picodollars(money.balance(connection, self._project, money.TOTAL).reserved)
        if not usd:
            return []
        return [
            f"calls under way may cost up to ${usd:.4f}: what their dropped answers cost is counted later"
        ]

    def missing(self, models: Collection[str]) -> Missing:
        """Find the labels and votes that the project lacks; the models are judged by this run."""
        with self._ledger.read() as connection:
            return missing_of(connection, self._project, models, self._start, SAME_COMMAND)

    def so_far(self) -> str:
        """Say what this run has spent."""
        return f"${self._in_this_run():.2f} spent"

    def outlook(self, asked: int, left: int) -> str:
        """Say what is spent, and what is to come if the tasks left cost what those asked about did."""
        return self.so_far() + to_come(self._in_this_run(), asked, left)


@dataclass(frozen=True, slots=True)
class RunTally:
    """Counts of one run, and what its project has cost and lacks."""

    counts: RunCounts
    spending: Spending
    models: Collection[str]

    def begin_sweep(self) -> None:
        """Start another sweep over all tasks; those that an earlier sweep left open are counted again."""
        self.counts.labelled_before = -self.counts.labelled
        self.counts.left_out = self.counts.waiting = self.counts.partly = 0
        self.counts.failed.clear()

    def outlook(self) -> str:
        """What is spent and to come, for the progress bar."""
        counts = self.counts
        return self.spending.outlook(counts.labelled + counts.failed.total(), counts.left)

    def summary(self) -> str:
        """What was done and what it cost, and a line for each problem that may need action."""
        return "\n".join([self.counts.summary(self.spending.in_all()), *self.missing().lines()])

    def interrupted(self) -> str:
        """The summary, and what the calls that nobody awaits any more may cost."""
        return "\n".join([self.summary(), *self.spending.of_dropped_calls()])

    def missing(self) -> Missing:
        """The labels and votes that the project lacks."""
        return self.spending.missing(self.models)

    @property
    def left(self) -> int:
        """How many tasks the run has not finished."""
        return self.counts.left

    @property
    def ending(self) -> Ending:
        """How the run ends, as an exit code."""
        return Ending.TASKS_LEFT if self.left else self.missing().ending


_AHEAD: Final = 64
"""Tasks whose texts are embedded together, two batches of the embedder."""


def _embedded_ahead(found: Iterator[Stored], jobs: DatasetJobs) -> Iterator[Stored]:
    """Let the texts of the tasks that follow be embedded in batches, before each is asked about.

    Nothing is embedded ahead if plans do not read the contexts.
    """
    process = jobs.process
    if not _always_read(jobs.settings, jobs.config.questions):
        yield from found
        return
    for some in portions(found, _AHEAD):
        texts = [question.context for stored in some for question in stored.open]
        process.thread.call_soon(partial(process.embedder.expect, texts))
        yield from some


_SHUFFLED: Final = 5_000
"""Tasks that memory holds to put them in random order."""


def _in_random_order(tasks: IndexedTasks, project: str) -> Iterator[DatasetTask]:
    """Read each task once, in a random order that is the same in every run.

    Plans learn from the first tasks, and files are often sorted by source, date or label. A large file is
    read several times: first for 5,000 tasks from all of it, then for as many as were read before.
    """

    def draw(task: DatasetTask) -> int:
        return random_draw("order", project, task.number)

    last, size = 0, min(_SHUFFLED * 2**64 // max(tasks.tasks, 1), 2**64)
    while last < 2**64:
        end = min(max(2 * last, size), 2**64)
        chosen = (task for task in tasks.first_rows() if last <= draw(task) < end)
        for some in portions(chosen, _SHUFFLED):
            yield from sorted(some, key=draw)
        last = end


def _always_read(settings: Settings, questions: Sequence[ConfigQuestion]) -> bool:
    """Whether every plan and prompt reads the contexts of a task's questions, so that texts are embedded."""
    return bool(settings.few_shot) or any(
        policy_for(settings.policy, questions, [question.name]).linear(question.control.aggregation)
        for question in questions
        if not question.conditions
    )


def label_tasks(
    jobs: DatasetJobs,
    tasks: IndexedTasks,
    console: Console,
    *,
    wait: bool = False,
    everyone: bool = False,
    in_order: bool = False,
    part: RunCounts | None = None,
) -> RunTally:
    """Ask models about the tasks that are not labelled yet, at once or in providers' batches.

    ``wait`` waits for the batches, ``everyone`` asks every model about every task, and ``in_order`` takes
    tasks in the order of their rows. The counts go to ``part`` if the tasks are part of a run that shows its
    progress and its end itself.
    """
    counts = RunCounts() if part is None else part
    counts.rows, counts.tasks = tasks.rows, tasks.tasks
    sweeps = _Sweeps(
        tasks,
        console,
        Labelling(jobs.process, jobs.settings.tasks_at_once, counts),
        RunTally(counts, Spending(jobs.process.ledger, jobs.project), jobs.settings.arms),
        everyone=everyone,
        in_order=in_order,
        only_failed=jobs.again,
        is_part=part is not None,
    )
    BatchRun(jobs, sweeps.sweep, console, wait).run(tasks.tasks)
    if not sweeps.swept:  # no batch is back
        _count(jobs, tasks, counts)
    return sweeps.tally


def _count(jobs: DatasetJobs, tasks: IndexedTasks, counts: RunCounts) -> None:
    """Count the tasks of a run that has come to none of them."""
    counts.labelled_before = sum(stored.complete for stored in jobs.look_up(tasks.first_rows()))
    with jobs.process.ledger.read() as connection:
        waiting, _ = WaitingTasks(connection).count(jobs.project)
    counts.waiting = min(waiting, counts.left)


@dataclass(slots=True)
class _Sweeps:
    """The sweeps of one run over its tasks."""

    tasks: IndexedTasks
    console: Console
    labelling: Labelling
    tally: RunTally
    _: KW_ONLY
    everyone: bool
    in_order: bool
    only_failed: bool
    is_part: bool
    swept: bool = False

    def sweep(self, jobs: DatasetJobs, most: int | None) -> None:
        """Take each task that has no label, or ``most`` of them, as far as it can go now."""
        self.swept, tally = True, self.tally
        tally.begin_sweep()
        spent = tally.outlook if jobs.batching is None else tally.spending.so_far
        try:
            with progress_bar(
                Console(quiet=True) if self.is_part else self.console,
                _doing(jobs, everyone=self.everyone),
                tally.counts.tasks,
                note=lambda done, total: spent(),
                waiting=jobs.awaited,
            ) as advance:
                for _ in self.labelling.run(islice(self._open_jobs(jobs, advance), most)):
                    advance(1)
        except BaseException:
            self._end(jobs)
            raise

    def _open_jobs(self, jobs: DatasetJobs, advance: Advance) -> Iterator[Job]:
        """The jobs of tasks without a label, or with a failure to be forgotten; the others are counted."""
        tasks, counts = self.tasks, self.tally.counts
        ordered = tasks.first_rows() if self.in_order else _in_random_order(tasks, jobs.project)
        for stored in _embedded_ahead(jobs.look_up(ordered), jobs):
            if stored.complete and stored.failure is None:
                counts.labelled_before += 1
            elif self.only_failed and stored.failure is None:
                counts.left_out += 1
            else:
                yield replace(stored.job, everyone=self.everyone, questions=stored.questions)
                continue
            advance(1)

    def _end(self, jobs: DatasetJobs) -> None:
        """Ask no more after an error or an interruption, and wait for the answers that are paid for."""
        process, console = jobs.process, self.console
        if jobs.waits and process.waiting():
            console.print("--no-wait decides tasks without the models that are down", soft_wrap=True)
        process.stop_asking()
        console.print(
            f"stopping when the calls of {of(self.labelling.under_way, 'task')} have ended; Ctrl-C drops"
            " their answers, which may be billed all the same",
            soft_wrap=True,
        )
        try:
            self.labelling.wait(jobs.settings.longest_call)
        finally:
            if not self.is_part:
                say(console, self.tally.interrupted())


def _doing(jobs: DatasetJobs, *, everyone: bool) -> str:
    """What a sweep does, for its progress; with batches, tasks are taken only to their next batch."""
    if everyone:
        return "asking everyone"
    return "labelling" if jobs.batching is None else "counting votes, planning batches"
