"""The tasks of a dataset that are not labelled yet, asked about one after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rich.console import Console

from backend.annotation.job import Job
from backend.commands.label.dataset_jobs import DatasetJobs
from backend.commands.label.labelling import Labelling
from backend.commands.label.options import LabelOptions
from backend.commands.label.run_tally import RunTally
from backend.commands.label.samples import Chosen
from backend.commands.label.spending import Spending
from backend.commands.progress import progress_bar
from backend.datasets.index import Index


def label_tasks(
    jobs: DatasetJobs,
    index: Index,
    chosen: Chosen,
    options: LabelOptions,
    console: Console,
    *,
    everyone: bool = False,
) -> RunTally:
    """Ask models about the chosen tasks that are not labelled yet.

    Args:
        jobs: makes jobs of tasks.
        index: the tasks.
        chosen: whether a task is among those to label.
        options: whether only failed tasks are asked about.
        console: where progress is shown.
        everyone: whether every model is asked about each task, as in a pilot.

    Raises:
        KeyboardInterrupt: after the calls under way have ended.
    """
    process = jobs.process
    labelling = Labelling(process, jobs.settings.concurrency)
    spending = Spending(process.ledger, jobs.project)
    tally = RunTally(index.rows, index.count(chosen), labelling, spending)

    def open_jobs() -> Iterator[Job]:
        for stored in jobs.look_up(task for task in index.first_rows() if chosen(task.number)):
            if stored.complete:
                tally.labelled_before += 1
            elif options.retry_failed and stored.failure is None:
                tally.left_out += 1
            else:
                yield replace(stored.job, everyone=everyone)
                continue
            advance(1)

    try:
        with progress_bar(
            console,
            "asking everyone" if everyone else "labelling",
            tally.tasks,
            note=lambda done, total: tally.outlook(),
        ) as advance:
            for _ in labelling.run(open_jobs()):
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
    return tally
