"""One run over a dataset: index it, ask models about what the ledger lacks, and hand out the results.

A run keeps no state of its own. What was paid for is in the ledger, so the same run goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final

from rich.console import Console

from backend import settings as settings_module
from backend.annotation.job import Job, is_audit
from backend.commands.label.batched.batch_run import BatchRun, batching_of
from backend.commands.label.blind_sample import audit_share, write_blind_sample
from backend.commands.label.counting_again import count_again
from backend.commands.label.dataset_jobs import DatasetJobs, Stored
from backend.commands.label.labelling import Labelling
from backend.commands.label.options import LabelOptions
from backend.commands.label.results import results
from backend.commands.label.run_tally import RunTally
from backend.commands.label.spending import Spending
from backend.commands.progress import progress_bar
from backend.datasets.columns import Columns
from backend.datasets.index import Index
from backend.datasets.indexed_tasks import IndexedTasks
from backend.datasets.sinks.result import Result
from backend.datasets.sources.row import Source
from backend.datasets.tasks import Dataset
from backend.errors import ConfigError
from backend.learning.projects import project_settings, remember_project
from backend.ledger import migrate, projects
from backend.models.embedder.embedder import Embedder
from backend.runtime.annotation_process import AnnotationProcess
from backend.settings import Environment, Settings

_AHEAD: Final = 64
"""Tasks whose texts are embedded together, two batches of the embedder."""

Write = Callable[[Iterator[Result], Columns], None]
"""Takes the result of every row, in order, and the columns of the source."""


def run_label(  # noqa: PLR0917 - what a run needs
    source: Source,
    options: LabelOptions,
    environment: Environment,
    console: Console,
    write: Write,
    embedder: Embedder | None = None,
) -> RunTally:
    """Label a dataset, and hand out what the ledger then says of each row.

    Nothing is spent before the whole source has been read and found right.

    Args:
        source: the rows.
        options: how to label them.
        environment: the ledger's address, ``camvo.yaml`` and the secrets.
        console: where progress is shown.
        write: takes the results; not called after an interruption.
        embedder: an embedder to use instead of a new one; closed at the end.

    Raises:
        CamvoError: an option, the settings or the source is wrong, or the run cannot go on.
        KeyboardInterrupt: somebody interrupted the run; calls under way were awaited and stored.
    """
    dataset = options.dataset(source)
    project = options.project(source.path)
    settings = options.settings(settings_module.load(environment.config))
    with Index(dataset) as index:
        with console.status("reading") as status:
            index.build(lambda rows: status.update(f"reading: {index.rows:,} rows"))
        migrate(environment.database_url)
        with annotation_process(settings, environment, embedder) as process:
            jobs = dataset_jobs(process, dataset, project, settings, options, index.tasks_in_all)
            if options.blind:
                jobs = _with_blind_sample(jobs, dataset, index, options, console)
            batching = batching_of(jobs.settings, process, everyone=options.batch)
            tally = label_tasks(replace(jobs, batching=batching), index, console, wait=options.wait)
            if options.recount:
                count_again(jobs, index, console, options.ask_more)
            write(results(index, jobs), index.columns)
            return tally


def dataset_jobs(  # noqa: PLR0917 - a process, a dataset, and how it is labelled
    process: AnnotationProcess,
    dataset: Dataset,
    project: str,
    settings: Settings,
    options: LabelOptions,
    tasks: int,
) -> DatasetJobs:
    """Store what is known of a dataset's project, and return what makes jobs of its tasks.

    Args:
        process: where it is annotated.
        dataset: the dataset.
        project: its name in the ledger.
        settings: those of every project, with the run's budget.
        options: how to label.
        tasks: how many tasks the whole source has.
    """
    own_settings = remembered_settings(process, project, dataset.label_config, settings, tasks)
    return DatasetJobs(process, project, dataset.config, own_settings, options.retry_failed)


@contextmanager
def annotation_process(
    settings: Settings, environment: Environment, embedder: Embedder | None = None
) -> Iterator[AnnotationProcess]:
    """A started process whose models all have a key.

    Raises:
        ConfigError: a key is missing.
    """
    process = AnnotationProcess(settings, environment, embedder=embedder)
    process.start()
    try:
        if missing := process.pool.missing_keys():
            raise ConfigError(f"not set: {', '.join(missing)}", fix="set these variables")
        process.embedder.load()
        yield process
    finally:
        process.store_paid_answers(0.0)
        process.close()


def remembered_settings(
    process: AnnotationProcess,
    project: str,
    label_config: str,
    settings: Settings,
    tasks: int | None = None,
) -> Settings:
    """Store what is known of a project, and return its own settings.

    Args:
        process: where it is annotated.
        project: its name.
        label_config: its label config, by which people's labels are read later.
        settings: those of every project.
        tasks: how many tasks it has, so that its budget lasts for all of them; ``None`` if that is unknown.

    Raises:
        ConfigError: the project's stored ``extra_params`` no longer fit the settings.
    """
    with process.ledger.write() as connection:
        columns = {"label_config": label_config} | ({} if tasks is None else {"task_number": tasks})
        remember_project(connection, project, columns, process.clock())
        own_settings, problem = project_settings(projects.get(connection, project), settings)
    if problem is not None:
        raise problem
    return own_settings


def _with_blind_sample(
    jobs: DatasetJobs, dataset: Dataset, index: Index, options: LabelOptions, console: Console
) -> DatasetJobs:
    """Keep a random sample blind, and write it to its file unless people may be labelling that already."""
    share = audit_share(index, jobs.project, options.blind)
    blind = replace(jobs, settings=jobs.settings.model_copy(update={"audit": share}))
    if options.blind_file.exists():
        console.print(
            f"{options.blind_file} is there already and stays as it is; move it away to have it written anew",
            highlight=False,
            soft_wrap=True,
        )
        return blind
    chosen = (task for task in index.first_rows() if is_audit(jobs.project, task.number, share))
    sample = [
        stored.task
        for stored in blind.look_up(chosen)
        # A blank text cannot be labelled, and a label that was shown is blind no more.
        if stored.askable and all(round_.audit for _, round_ in stored.decided)
    ]
    write_blind_sample(options.blind_file, jobs.project, dataset.config, sample)
    console.print(
        f"{len(sample)} blind tasks written to {options.blind_file}: label them from the top, then run"
        f" camvo teach {options.blind_file}",
        highlight=False,
        soft_wrap=True,
    )
    return blind


def _embedded_ahead(found: Iterator[Stored], process: AnnotationProcess) -> Iterator[Stored]:
    """Let the texts of the tasks that follow be embedded in batches, before each is asked about."""
    while some := list(islice(found, _AHEAD)):
        texts = [question.question.context for stored in some for question in stored.open]
        process.thread.call_soon(partial(process.embedder.expect, texts))
        yield from some


def label_tasks(jobs: DatasetJobs, tasks: IndexedTasks, console: Console, *, wait: bool = False) -> RunTally:
    """Ask models about the tasks that are not labelled yet, at once or in providers' batches.

    Args:
        jobs: makes jobs of the tasks.
        tasks: the tasks.
        console: where progress is shown.
        wait: whether to wait for the batches that are out.

    Raises:
        CamvoError: no task can be labelled, as when the ledger is broken.
        KeyboardInterrupt: after the calls under way have ended.
    """
    labelling = Labelling(jobs.process, jobs.settings.tasks_at_once)
    spending = Spending(jobs.process.ledger, jobs.project)
    tally = RunTally(tasks.rows, tasks.tasks, labelling, spending)

    def label(of: DatasetJobs, most: int | None) -> None:
        _sweep(of, tasks, console, tally, most)

    BatchRun(jobs, label, console, wait).run(tasks.tasks)
    return tally


def _sweep(
    jobs: DatasetJobs, tasks: IndexedTasks, console: Console, tally: RunTally, most: int | None
) -> None:
    """Take each task that has no label as far as it can go now.

    Args:
        jobs: makes jobs of the tasks.
        tasks: the tasks.
        console: where progress is shown.
        tally: counts what happens.
        most: the most tasks to ask about; ``None`` for all.

    Raises:
        CamvoError: no task can be labelled, as when the ledger is broken.
        KeyboardInterrupt: after the calls under way have ended.
    """
    process, labelling = jobs.process, tally.labelling
    tally.begin_sweep()

    def open_jobs() -> Iterator[Job]:
        for stored in _embedded_ahead(jobs.look_up(tasks.first_rows()), process):
            if stored.complete:
                tally.labelled_before += 1
            elif jobs.again and stored.failure is None:
                tally.left_out += 1
            else:
                yield stored.job
                continue
            advance(1)

    try:
        with progress_bar(
            console, "labelling", tasks.tasks, note=lambda done, total: tally.outlook()
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
