"""``camvo label --batch``: a first window, then everything else through providers' batches; ``camvo jobs``.

A run keeps no state of its own. It checks the submitted jobs, counts the votes that have arrived, and sends
what the next stage needs. Running the same command again continues the work.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from concurrent.futures import wait
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar

from rich.console import Console
from rich.table import Table

from backend import settings as settings_module
from backend.annotation.batch_desk import Desk, DeskReport
from backend.annotation.job import Batching
from backend.commands.bulk.dataset_jobs import DatasetJobs
from backend.commands.shared.output import say
from backend.commands.shared.setup import existing_ledger
from backend.errors import BatchesUnsupportedError, ConfigError
from backend.ledger import Writer, batches
from backend.ledger.batches import OPEN, BatchJob, Jobs, Lines
from backend.ledger.money import from_picodollars
from backend.ledger.rounds import ProjectRounds
from backend.models import Pool
from backend.runtime import AnnotationProcess
from backend.server.status.formats import verb_of
from backend.settings import Environment, Settings
from backend.settings.policies import policy_of
from camvo.policies.ensemble import Baseline, Majority, Single
from camvo.twins import twins

_FIRST_WINDOW: Final = 150
"""The most tasks that are labelled first, so that stopping is learnt before the large batches."""

_SHARE: Final = 20
"""The first window has at most one in this many tasks."""

_LEAST: Final = 10
"""Fewer tasks teach nothing, so that there is no first window then."""

_AT_ONCE_FROM: Final = 5000
"""Tasks from which the first window is asked at once.

With fewer, its full price would be a large part of the whole bill, so it is sent as a round of batches.
"""

_FIRST_PAUSE, _LONGEST_PAUSE, _SLOWER = 1.0, 60.0, 1.5
"""Seconds between two looks at the jobs: at first, at most, and how many times longer each is."""

_PATIENCE: Final = 30.0
"""Seconds after an interruption in which requests to a provider may end, so that the ledger knows of them."""

_Result = TypeVar("_Result")


def batching_of(settings: Settings, process: AnnotationProcess, *, everyone: bool) -> Batching | None:
    """Which models are asked in batches; ``None`` if none is."""
    pool = process.pool
    chosen = [
        model.name
        for model in settings.models
        if model.batch or (everyone and not model.is_embedded and pool[model.name].has_batches)
    ]
    for name in chosen:
        _ = pool[name].batches  # an error says why there are none
    if everyone and not chosen:
        raise BatchesUnsupportedError(
            "no model of the pool has batches", where="--batch", fix="leave it out, or name other models"
        )
    return Batching(frozenset(chosen), settings.policy.max_stages) if chosen else None


def _first_window(jobs: DatasetJobs, tasks: int) -> int:
    """The number of further tasks to label before the others are planned."""
    if jobs.again:
        return 0
    policy = policy_of(jobs.settings.policy)
    if isinstance(policy, Majority | Baseline | Single):
        return 0  # nothing is learnt that says when to stop
    with jobs.process.ledger.read() as connection:
        learnt = ProjectRounds(connection, jobs.project).count_tasks()
    window = min(_FIRST_WINDOW, tasks // _SHARE)
    return max(window - learnt, 0) if window >= _LEAST else 0


@dataclass(slots=True)
class BatchRun:
    """The rounds of batches of one run."""

    jobs: DatasetJobs
    label: Callable[[DatasetJobs, int | None], None]
    console: Console
    wait: bool
    pause: Callable[[float], None] = time.sleep
    _problems: dict[str, None] = field(default_factory=dict)

    def run(self, tasks: int) -> None:
        """Label the tasks, and send and settle batches until none is out or it is time to come back later."""
        if self.jobs.batching is None and not _some_are_out(self.jobs):
            return self.label(self.jobs, None)
        with self._desk() as desk:
            if self.jobs.batching is None:
                self._say(self._finished(desk.look(self.jobs.project)))
                return self.label(self.jobs, None)
            try:
                if self._learnt_to_stop(desk, tasks):
                    self._rounds(desk, lambda: None)
            except KeyboardInterrupt:
                self._say(DeskReport(out=desk.out(self.jobs.project)))
                raise
            return None

    @contextmanager
    def _desk(self) -> Iterator[Desk]:
        process = self.jobs.process
        desk = Desk(
            process.ledger,
            process.writer,
            process.pool,
            process.settings.models,
            self.jobs.settings.retries,
            process.clock,
        )
        renewing = process.thread.submit(desk.renew_leases())
        try:
            yield desk
        finally:
            renewing.cancel()

    def _learnt_to_stop(self, desk: Desk, tasks: int) -> bool:
        """Label the first window; whether the others can follow now."""
        window = partial(_first_window, self.jobs, tasks)
        if not (most := window()):
            return True
        if tasks < _AT_ONCE_FROM:
            return self._rounds(desk, window)
        self.label(replace(self.jobs, batching=None), most)
        return True

    def _rounds(self, desk: Desk, most: Callable[[], int | None]) -> bool:
        """Send and settle batches until none is out, or it is time to come back later."""
        seconds, fresh = _FIRST_PAUSE, True
        while True:
            report = self._look(desk)
            moved = report.settled  # what was only sent may be refused at once, and again the next time
            if (not report.out and not report.full) or (report.settled and fresh):
                before, fresh = self._wanted(), False
                self.label(self.jobs, most())
                self.jobs = replace(self.jobs, again=False)  # one more attempt, not one in each round
                settled, report = report.settled, self._send(desk)
                stuck = report.problems or report.short or self._wanted() in (0, before)
                if not report.out and not report.full and stuck and not settled:
                    self._say(report)
                    return not (report.problems or report.short)
            if not self.wait and (report.out or report.full):
                self._say(report)
                return False
            if report.out or report.full:
                seconds = _FIRST_PAUSE if moved else seconds
                self.pause(seconds)
                seconds, fresh = min(seconds * _SLOWER, _LONGEST_PAUSE), True

    def _look(self, desk: Desk) -> DeskReport:
        """Settle the jobs that have ended, and send the lines that were held back."""
        report = self._finished(desk.look(self.jobs.project))
        if report.settled:
            self.console.print(f"{_batches(report.settled)} back", highlight=False)
        sent = self._send(desk, report.full)
        sent.settled, sent.problems = report.settled, [*report.problems, *sent.problems]
        self._say_problems(sent.problems)
        return sent

    def _send(self, desk: Desk, full: Collection[str] = ()) -> DeskReport:
        """Send the wanted lines, and report which jobs are out."""
        jobs, report = self.jobs, DeskReport(full=set(full))

        async def send() -> DeskReport:
            for arm in _arms(jobs):
                await desk.send(jobs.project, arm, jobs.settings.budget, report, jobs.purse)
            report.out = desk.out(jobs.project)
            return report

        self._finished(send())
        if report.sent:
            self.console.print(
                f"{report.sent:,} requests sent; {_batches(len(report.out))} out", highlight=False
            )
        return report

    def _finished(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run some work with providers; after an interruption, first give it time to finish."""
        future = self.jobs.process.thread.submit(work)
        try:
            return future.result()
        except KeyboardInterrupt:
            wait([future], timeout=_PATIENCE)
            raise

    def _wanted(self) -> int:
        with self.jobs.process.ledger.read() as connection:
            counted = Lines(connection).count(self.jobs.project)
        return sum(number for (_, state), number in counted.items() if state == "wanted")

    def _say_problems(self, problems: Sequence[str]) -> None:
        """Print each problem when it is first met: a run that waits may never end while it lasts."""
        for problem in dict.fromkeys(problems):
            if problem not in self._problems:
                say(self.console, problem)
        self._problems |= dict.fromkeys(problems)

    def _say(self, report: DeskReport) -> None:
        """Print which jobs are out, and when to run the command again."""
        self._say_problems(report.problems)
        if report.short is not None:
            say(self.console, f"lines are held back: {report.short}")
        if report.full:
            say(
                self.console,
                f"the provider of {', '.join(sorted(report.full))} has too many tokens enqueued: run the same"
                " command again later, or with --wait",
            )
        due = [job.due_at for job in report.out if job.due_at is not None]
        if report.out:
            latest = f", at the latest {_time(max(due))}" if due else ""
            say(
                self.console,
                f"{_batches(len(report.out))} out{latest}: run the same command again when all are back,"
                " or with --wait; camvo jobs lists them",
            )


def _arms(jobs: DatasetJobs) -> list[str]:
    """The arms that are asked in batches: the models, and the packed arms beside them."""
    models = frozenset[str]() if jobs.batching is None else jobs.batching.models
    packed = twins(jobs.settings.arms)
    return sorted(arm for arm in jobs.settings.arms if packed.get(arm, arm) in models)


def _some_are_out(jobs: DatasetJobs) -> bool:
    """Whether batches of the project are out."""
    with jobs.process.ledger.read() as connection:
        return bool(Jobs(connection).find(states=batches.OPEN, project=jobs.project, limit=1))


def _batches(number: int) -> str:
    return "1 batch is" if number == 1 else f"{number:,} batches are"


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


_MOST = 50
"""The most jobs that are listed: those that are out, and the newest others."""


def list_jobs(
    console: Console,
    environment: Environment,
    project: str | None,
    *,
    cancel: str | None = None,
    as_json: bool = False,
) -> None:
    """Print the jobs that are out, and the newest ones that are not; first cancel those chosen."""
    if cancel is not None:
        _cancel_jobs(console, environment, project, cancel)
    with existing_ledger(environment, migrated=True) as ledger, ledger.read() as connection:
        out = Jobs(connection).find(states=OPEN, project=project)
        rest = Jobs(connection).find(project=project, limit=_MOST)
        found = list({job.id: job for job in (*rest, *out)}.values())
        found.sort(key=lambda job: (job.created_at, job.id))
        rows = _rows(found, Lines(connection).sums_by_job([job.id for job in found]))
    if as_json:
        console.print_json(json.dumps(rows))
    elif not rows:
        console.print("no batches were sent", highlight=False)
    else:
        console.print(_table(rows))
        total = sum(row["cost_usd"] for row in rows)
        console.print(
            f"{len(out)} {verb_of(len(out), 'are')} out; those listed cost ${total:.4f} so far",
            highlight=False,
        )


def _cancel_jobs(console: Console, environment: Environment, project: str | None, chosen: str) -> None:
    """Cancel jobs that are out."""
    settings = settings_module.load(environment.config)
    with existing_ledger(environment, migrated=True) as ledger, closing(Writer(ledger)) as writer:
        with ledger.read() as connection:
            out = Jobs(connection).find(states=OPEN, project=project)
        wanted = [job for job in out if chosen == "all" or job.id.startswith(chosen)]
        if not wanted:
            raise ConfigError(
                f"no batch that is out has an id that begins with {chosen!r}",
                where="--cancel",
                fix="camvo jobs lists them",
            )
        pool = Pool(settings.models, keys=environment.keys(settings.models))
        desk = Desk(ledger, writer, pool, settings.models, settings.retries, time.time)
        asyncio.run(_cancel(desk, wanted))
        for job in wanted:
            console.print(f"{job.id[:8]} is being cancelled", highlight=False)


async def _cancel(desk: Desk, wanted: Sequence[BatchJob]) -> None:
    for job in wanted:
        await desk.cancel(job)


def _rows(found: Sequence[BatchJob], sums: dict[str, dict[str, tuple[int, int]]]) -> list[dict[str, Any]]:
    return [
        {
            "id": job.id,
            "project": job.project,
            "model": job.model,
            "state": "cancelling" if job.cancelled and job.state in OPEN else job.state,
            "lines": job.lines,
            "answered": sums[job.id].get("answered", (0, 0))[0],
            "failed": sums[job.id].get("failed", (0, 0))[0],
            "cost_usd": from_picodollars(sum(cost for _, cost in sums[job.id].values())),
            "sent_at": job.sent_at,
            "due_at": job.due_at,
            "code": job.code,
        }
        for job in found
    ]


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("id", no_wrap=True)
    for heading in ("project", "model", "state"):
        table.add_column(heading, overflow="fold")  # so that a narrow terminal cuts nothing off
    for heading in ("lines", "answered", "failed", "cost"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("sent (UTC)", width=5)
    table.add_column("due (UTC)", width=5)
    for row in rows:
        state = f"{row['state']} ({row['code']})" if row["code"] else row["state"]
        numbers = [f"{row[name]:,}" for name in ("lines", "answered", "failed")]
        times = [_day_and_time(row[name]) for name in ("sent_at", "due_at")]
        cost = f"${row['cost_usd']:.4f}"
        table.add_row(row["id"][:8], row["project"], row["model"], state, *numbers, cost, *times)
    return table


def _day_and_time(at: float | None) -> str:
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%m-%d %H:%M")
