"""``camvo label FILE --engine …``: a file in parts, on a cluster or in this process, into a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from rich.console import Console

from backend import settings as settings_module
from backend.commands.environment import environment_with
from backend.commands.label.engines import ray_data
from backend.commands.label.engines.part_labeller import PartLabeller, PartOutcome, Work
from backend.commands.label.file_run import interruptible, quiet_logs
from backend.commands.label.options import LabelOptions
from backend.commands.label.project.project_process import asking_nobody
from backend.commands.label.run import dataset_jobs
from backend.commands.label.run_counts import RunCounts
from backend.commands.label.spending import Spending
from backend.commands.progress import progress_bar
from backend.commands.quote.quoting import agreed
from backend.datasets.index import Index
from backend.datasets.optional import pyarrow_parquet
from backend.datasets.parts import Part, parts_of, stale_names
from backend.datasets.sinks.parts_folder import PartsFolder, parts_folder
from backend.datasets.sources.open_source import open_source
from backend.datasets.tasks import Dataset
from backend.errors import ConfigError
from backend.ledger import Ledger, migrate
from backend.settings import Environment, Settings

Engine = Literal["asyncio", "ray"]
Outcomes = Callable[[Work, Sequence[Part]], Iterator[PartOutcome]]


def label_in_parts(path: Path, out: str, options: LabelOptions, config: Path | None, engine: Engine) -> bool:
    """Label a file and write the labels to a folder of Parquet files.

    Args:
        path: the tasks; every host of a cluster must see the file under this path.
        out: the folder, for which the same is true, or the address of one in an object store.
        options: how to label.
        config: ``camvo.yaml``; ``None`` for that of the environment.
        engine: where parts are labelled.

    Returns:
        Whether all tasks are labelled or have failed, so that none is left.

    Raises:
        CamvoError: an input is wrong, which is found before anything is spent.
        typer.Exit: somebody interrupted the run.
    """
    folder, environment = parts_folder(out), environment_with(config)
    quiet_logs(environment)
    console = Console()
    if engine == "ray" and not ray_data.is_installed():
        console.print(
            'Ray is not installed (pip install "camvo[ray]"): this process labels alone', soft_wrap=True
        )
        engine = "asyncio"
    label = ray_data.label_on_ray if engine == "ray" else label_here
    with interruptible():
        counts, errors = run_parts(path, folder, options, environment, console, label)
    for outcome in errors:
        console.print(
            f"part {outcome.part} is not labelled: {outcome.error}", highlight=False, soft_wrap=True
        )
    console.print(f"written to {folder.name}", highlight=False, soft_wrap=True)
    return not (counts.left or errors)


def run_parts(  # noqa: PLR0917 - two places, and what a run needs
    path: Path,
    folder: PartsFolder,
    options: LabelOptions,
    environment: Environment,
    console: Console,
    label: Outcomes,
) -> tuple[RunCounts, list[PartOutcome]]:
    """Read and check the whole file, and let an engine label its parts.

    Returns:
        What was done with the tasks, and the parts that could not be labelled.

    Raises:
        CamvoError: an input is wrong, which is found before anything is spent.
    """
    pyarrow_parquet()
    dataset = options.dataset(open_source(path))
    folder.prepare()
    settings = settings_module.load(environment.config)
    _refuse_batches(settings)
    with Index(dataset) as index:
        with console.status("reading") as status:
            index.build(lambda rows: status.update(f"reading: {index.rows:,} rows"))
        parts = list(parts_of(index.rows, index.is_first()))
        work = Work(
            path=path.resolve(),
            folder=folder,
            options=options,
            settings=settings,
            environment=environment,
            project=options.project(path),
            columns=index.columns,
            tasks=index.tasks,
        )
        rows = index.rows
        migrate(environment.database_url)
        work = _agreed(work, dataset, index, console)
    counts, errors = _gather(label(work, parts), work, rows, console)
    if not errors:
        folder.remove(stale_names(folder.names(), len(parts)))
    return counts, errors


def _refuse_batches(settings: Settings) -> None:
    """Check that no model is asked in batches.

    Raises:
        ConfigError: one is.
    """
    if batched := [model.name for model in settings.models if model.batch]:
        raise ConfigError(
            f"{', '.join(batched)} would be asked in batches, which is for one process that waits for them",
            where="--engine",
            fix="leave out batch: true, or run it without --engine",
        )


def _agreed(work: Work, dataset: Dataset, index: Index, console: Console) -> Work:
    """Show the quote, ask whether to spend it, and let every part keep to it."""
    with asking_nobody(work.settings, work.environment) as process:
        jobs = dataset_jobs(process, dataset, work.project, work.settings, work.options, work.tasks)
        aim = agreed(jobs, index, work.options, console).aim_usd
    return replace(work, options=replace(work.options, aim=aim))


def _gather(
    outcomes: Iterator[PartOutcome], work: Work, rows: int, console: Console
) -> tuple[RunCounts, list[PartOutcome]]:
    """Add up what the parts came to, beside the progress."""
    counts, errors = RunCounts(), []
    ledger = Ledger(work.environment.database_url)
    try:
        spending = Spending(ledger, work.project)

        def outlook(done: int, total: int) -> str:
            return spending.outlook(
                counts.labelled + counts.failed.total(), max(work.tasks - counts.tasks, 0)
            )

        with progress_bar(console, "labelling", rows, note=outlook) as advance:
            for outcome in outcomes:
                if outcome.code is not None:
                    errors.append(outcome)
                else:
                    counts += outcome.counts
                    advance(outcome.counts.rows)
        console.print(counts.summary(spending.in_all()), highlight=False, soft_wrap=True)
    finally:
        ledger.close()
    return counts, errors


def label_here(work: Work, parts: Sequence[Part]) -> Iterator[PartOutcome]:
    """Label parts one after another in this process."""
    with PartLabeller(work) as labeller:
        for part in parts:
            yield labeller.label(part)
