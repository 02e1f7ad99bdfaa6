"""One run over a dataset: index it, ask models about what the ledger lacks, and hand out the results.

A run keeps no state of its own. What was paid for is in the ledger, so the same run goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from rich.console import Console

from backend import settings as settings_module
from backend.annotation.job import is_audit
from backend.commands.label.batched.batch_run import batching_of
from backend.commands.label.blind_sample import audit_share, write_blind_sample
from backend.commands.label.counting_again import count_again
from backend.commands.label.dataset_jobs import DatasetJobs
from backend.commands.label.label_tasks import label_tasks
from backend.commands.label.options import LabelOptions
from backend.commands.label.project.project_process import annotation_process, remembered_settings
from backend.commands.label.results import results
from backend.commands.label.run_tally import RunTally
from backend.commands.quote.quoting import agreed
from backend.commands.quote.samples import RandomSample
from backend.datasets.columns import Columns
from backend.datasets.index import Index
from backend.datasets.sinks.result import Result
from backend.datasets.sources.row import Source
from backend.datasets.tasks import Dataset
from backend.ledger import migrate, rounds
from backend.models.embedder.embedder import Embedder
from backend.runtime.annotation_process import AnnotationProcess
from backend.settings import Environment, Settings

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
    settings = settings_module.load(environment.config)
    with Index(dataset) as index:
        with console.status("reading") as status:
            index.build(lambda rows: status.update(f"reading: {index.rows:,} rows"))
        migrate(environment.database_url)
        with annotation_process(settings, environment, embedder) as process:
            jobs = dataset_jobs(process, dataset, project, settings, options, index.tasks_in_all)
            tasks = RandomSample(index, project, options.sample) if options.sample else index
            if options.blind:
                jobs = _with_blind_sample(jobs, dataset, index, options, console)
            elif not (jobs.settings.audit or options.sample or _has_labels(jobs)):
                console.print(
                    "no task is kept blind, so nothing can be certified later: --blind 300 in this first run"
                    " keeps a sample for people",
                    highlight=False,
                    soft_wrap=True,
                )
            batching = batching_of(jobs.settings, process, everyone=options.batch)
            jobs = agreed(replace(jobs, batching=batching), tasks, options, console)
            tally = label_tasks(jobs, tasks, console, wait=options.wait)
            if options.recount:
                count_again(jobs, tasks, console, options.ask_more)
            write(results(tasks, jobs), index.columns)
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
        settings: those of every project.
        options: how to label.
        tasks: how many tasks the whole source has.
    """
    own_settings = remembered_settings(process, project, dataset.label_config, settings, tasks)
    return DatasetJobs(
        process, project, dataset.config, own_settings, options.retry_failed, options.purse, options.aim
    )


def _has_labels(jobs: DatasetJobs) -> bool:
    with jobs.process.ledger.read() as connection:
        return rounds.count_tasks(connection, jobs.project) > 0


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
    if not sample:
        console.print(
            f"no task can be kept blind any more: each has a label that an output showed. --name"
            f" {jobs.project}-blind begins another project, whose first run can keep some blind; answers that"
            " are paid for are not bought again",
            highlight=False,
            soft_wrap=True,
        )
        return blind
    write_blind_sample(options.blind_file, jobs.project, dataset.config, sample)
    console.print(
        f"{len(sample)} blind tasks written to {options.blind_file}: label them from the top, then run"
        f" camvo teach {options.blind_file}",
        highlight=False,
        soft_wrap=True,
    )
    return blind
