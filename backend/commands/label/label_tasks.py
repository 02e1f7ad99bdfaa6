"""The tasks of a dataset that are not labelled yet, asked about one after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final

from rich.console import Console

from backend.annotation.job import Job
from backend.annotation.plans.contexts import always_read
from backend.commands.label.batched.batch_run import BatchRun
from backend.commands.label.dataset_jobs import DatasetJobs, Stored
from backend.commands.label.labelling import Labelling
from backend.commands.label.run_tally import RunTally
from backend.commands.label.spending import Spending
from backend.commands.progress import progress_bar
from backend.datasets.indexed_tasks import IndexedTasks

_AHEAD: Final = 64
"""Tasks whose texts are embedded together, two batches of the embedder."""


def _embedded_ahead(found: Iterator[Stored], jobs: DatasetJobs) -> Iterator[Stored]:
    """Let the texts of the tasks that follow be embedded in batches, before each is asked about.

    Nothing is embedded ahead if plans do not read the contexts.
    """
    process = jobs.process
    if not always_read(jobs.settings, jobs.config.questions):
        yield from found
        return
    while some := list(islice(found, _AHEAD)):
        texts = [question.question.context for stored in some for question in stored.open]
        process.thread.call_soon(partial(process.embedder.expect, texts))
        yield from some


def label_tasks(
    jobs: DatasetJobs, tasks: IndexedTasks, console: Console, *, wait: bool = False, everyone: bool = False
) -> RunTally:
    """Ask models about the tasks that are not labelled yet, at once or in providers' batches.

    Args:
        jobs: makes jobs of the tasks.
        tasks: the tasks.
        console: where progress is shown.
        wait: whether to wait for the batches that are out.
        everyone: whether every model is asked about each task, as in a pilot.

    Raises:
        CamvoError: no task can be labelled, as when the ledger is broken.
        KeyboardInterrupt: after the calls under way have ended.
    """
    labelling = Labelling(jobs.process, jobs.settings.tasks_at_once)
    spending = Spending(jobs.process.ledger, jobs.project)
    tally = RunTally(tasks.rows, tasks.tasks, labelling, spending)

    def label(of: DatasetJobs, most: int | None) -> None:
        _sweep(of, tasks, console, tally, most, everyone=everyone, only_failed=jobs.again)

    BatchRun(jobs, label, console, wait).run(tasks.tasks)
    return tally


def _sweep(
    jobs: DatasetJobs,
    tasks: IndexedTasks,
    console: Console,
    tally: RunTally,
    most: int | None,
    *,
    everyone: bool,
    only_failed: bool,
) -> None:
    """Take each task that has no label as far as it can go now.

    Args:
        jobs: makes jobs of the tasks.
        tasks: the tasks.
        console: where progress is shown.
        tally: counts what happens.
        most: the most tasks to ask about; ``None`` for all.
        everyone: whether every model is asked about each task.
        only_failed: whether only tasks are asked about that failed before.

    Raises:
        CamvoError: no task can be labelled, as when the ledger is broken.
        KeyboardInterrupt: after the calls under way have ended.
    """
    process, labelling = jobs.process, tally.labelling
    tally.begin_sweep()

    def open_jobs() -> Iterator[Job]:
        for stored in _embedded_ahead(jobs.look_up(tasks.first_rows()), jobs):
            if stored.complete:
                tally.labelled_before += 1
            elif only_failed and stored.failure is None:
                tally.left_out += 1
            else:
                yield replace(stored.job, everyone=everyone)
                continue
            advance(1)

    try:
        with progress_bar(
            console,
            _doing(jobs, everyone=everyone),
            tasks.tasks,
            note=lambda done, total: tally.outlook() if jobs.batching is None else tally.spending.so_far(),
        ) as advance:
            for _ in labelling.run(islice(open_jobs(), most)):
                advance(1)
    except BaseException:
        process.stop_asking()
        console.print(
            f"stopping when the calls of {labelling.under_way} tasks have ended; Ctrl-C drops their answers",
            soft_wrap=True,
        )
        labelling.wait(jobs.settings.deadline)
        console.print(tally.summary(), highlight=False, soft_wrap=True)
        raise


def _doing(jobs: DatasetJobs, *, everyone: bool) -> str:
    """What a sweep does, for its progress; with batches, tasks are taken only to their next batch."""
    if everyone:
        return "asking everyone"
    return "labelling" if jobs.batching is None else "counting votes, planning batches"
