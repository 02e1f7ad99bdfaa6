"""``camvo label FILE --engine …``: a file in parts, on a cluster or in this process, into a folder."""

from __future__ import annotations

import logging
import os
import pickle
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

import structlog
from rich.console import Console

from backend import settings as settings_module
from backend.annotation.job import random_draw
from backend.commands.bulk.dataset_jobs import DatasetJobs
from backend.commands.bulk.labelling import RunCounts, RunTally, Spending, label_tasks
from backend.commands.bulk.process import annotation_process, dataset_jobs
from backend.commands.bulk.quoting import agreed
from backend.commands.label.columns import added_kinds
from backend.commands.label.run import forget_changed_rows, print_notes, results
from backend.commands.shared.arguments import quiet_environment
from backend.commands.shared.options import LabelOptions
from backend.commands.shared.output import print_ending, progress_bar, say
from backend.commands.shared.setup import interruptible
from backend.datasets.sinks import PartsFolder, parquet_sink, parts_folder
from backend.datasets.sources import open_source, pyarrow_parquet
from backend.datasets.tasks import Columns, Dataset, Index, Part, PartTasks
from backend.errors import DISK_FULL, ConfigError, DiskFullError
from backend.ledger import Ledger, migrate
from backend.models.model import provider_of
from backend.server.status.missing import Ending, Missing
from backend.settings import Environment, Settings
from backend.telemetry import logs
from camvo.errors import CamvoError

_log = structlog.get_logger(__name__)


_OF_S3 = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
)
"""The variables from which pyarrow takes credentials, region and server of S3, if they are no files."""


@dataclass(frozen=True, slots=True)
class _Work:
    """The instructions for every process of a run. Can be sent to other hosts that see the same files."""

    path: Path
    folder: PartsFolder
    options: LabelOptions
    settings: Settings
    environment: Environment
    project: str
    columns: Columns
    tasks: int

    def keys(self) -> dict[str, str]:
        """The variables of this process's environment that hold the models' keys, and those of the bucket."""
        providers = {provider_of(model.model) or "" for model in self.settings.models}
        names = {model.api_key_env for model in self.settings.models if model.api_key_env}
        names |= {f"{provider.upper()}_API_KEY" for provider in providers if provider}
        if self.folder.name.startswith("s3://"):
            names.update(_OF_S3)
        return {name: os.environ[name] for name in sorted(names) if name in os.environ}


_AGAIN: Final = "run the same command again, which pays for nothing twice, and report this if it comes back"


@dataclass(frozen=True, slots=True)
class _PartOutcome:
    """The outcome of one part."""

    part: int
    counts: RunCounts = field(default_factory=RunCounts)
    code: str | None = None
    error: str | None = None
    interrupted: bool = False


class _PartLabeller:
    """Labels parts, one after another, with one runtime; without a console it prints nothing."""

    def __init__(self, work: _Work, console: Console | None = None) -> None:
        self._work = work
        self._console = console or Console(quiet=True)
        self._dataset: Dataset = work.options.dataset(open_source(work.path))
        self._opened = ExitStack()
        self._jobs: DatasetJobs | None = None

    def __enter__(self) -> _PartLabeller:
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def label(self, part: Part) -> _PartOutcome:
        """Label a part and write its file. A part that cannot be labelled does not end those after it.

        The file is the same whoever writes it: it says what the ledger holds of the part's rows. So a part
        may be labelled again after its process was killed, or by two processes at once.
        """
        counts = RunCounts()
        try:
            self._label(part, counts)
        except KeyboardInterrupt:
            return _PartOutcome(part.number, counts, interrupted=True)
        except CamvoError as error:
            self._close()  # the runtime calls no more models; the next part opens another
            return _PartOutcome(part.number, counts, error.code, str(error))
        except Exception as error:  # its text might quote a task
            _log.error("part_failed", part=part.number, kind=type(error).__name__)
            self._close()
            return _PartOutcome(part.number, counts, "internal", f"{type(error).__name__} ({_AGAIN})")
        return _PartOutcome(part.number, counts)

    def _label(self, part: Part, counts: RunCounts) -> None:
        work = self._work
        jobs, tasks = self._open(), PartTasks(self._dataset, part, work.columns)
        label_tasks(jobs, tasks, self._console, part=counts)
        opened, added = work.folder.file(part.file_name), added_kinds(jobs.config)
        with opened as file, parquet_sink(file, work.columns, added) as write:
            for result in results(tasks, jobs):
                write(result)

    def _open(self) -> DatasetJobs:
        if self._jobs is None:
            work = self._work
            process = self._opened.enter_context(annotation_process(work.settings, work.environment))
            self._jobs = dataset_jobs(
                process, self._dataset, work.project, work.settings, work.options, work.tasks
            )
        return self._jobs

    def _close(self) -> None:
        self._jobs = None
        self._opened.close()


def _is_installed() -> bool:
    """Whether the extra ``[ray]`` is installed."""
    from importlib.util import find_spec  # noqa: PLC0415 - only where an engine is asked for

    return find_spec("ray") is not None and find_spec("pyarrow") is not None


def _label_on_ray(work: _Work, parts: Sequence[Part], console: Console) -> Iterator[_PartOutcome]:
    """Label parts on the cluster of ``RAY_ADDRESS``, or on one that is started on this host."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray reads it during its import
    import ray  # noqa: PLC0415 - an extra
    import ray.data  # noqa: PLC0415

    started = not ray.is_initialized()
    if started:
        on_sigterm = signal.getsignal(signal.SIGTERM)
        ray.init(log_to_driver=False, logging_level="ERROR", include_dashboard=False)
        signal.signal(signal.SIGTERM, on_sigterm)  # Ray's own handler aborts the process
    try:
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        most = min(max(int(ray.cluster_resources().get("CPU", 1)), 1), len(parts))
        items = [{"part": pickle.dumps(part)} for part in parts]
        outcomes = ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
            _Actor,
            batch_size=1,
            num_cpus=1,
            compute=ray.data.ActorPoolStrategy(
                min_size=1, max_size=most, initial_size=most, max_tasks_in_flight_per_actor=2
            ),
            fn_constructor_args=(work, work.keys()),
        )
        for row in outcomes.iter_rows():
            yield pickle.loads(row["outcome"])  # noqa: S301 - made by our own actors
    finally:
        if started:
            ray.shutdown()


class _Actor:
    """One process of the cluster. It lives as long as the run."""

    def __init__(self, work: _Work, keys: Mapping[str, str]) -> None:
        # litellm reads keys from the environment, and that of another host may lack them.
        os.environ.update(keys)
        logs.configure(work.environment.log_level)
        self._labeller = _PartLabeller(work)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[bytes]]:
        """Label the parts of a batch."""
        parts: list[Part] = [pickle.loads(data) for data in batch["part"]]  # noqa: S301 - made by the driver
        return {"outcome": [pickle.dumps(self._labeller.label(part)) for part in parts]}


_Outcomes = Callable[[_Work, Sequence[Part], Console], Iterator[_PartOutcome]]


def label_in_parts(
    path: Path, out: str, options: LabelOptions, config: Path | None, engine: Literal["asyncio", "ray"]
) -> Ending:
    """Label a file and write the labels to a folder of Parquet files."""
    folder, environment = parts_folder(out), quiet_environment(config)
    console = Console()
    if engine == "ray" and not _is_installed():
        console.print(
            'Ray is not installed (pip install "camvo[ray]"): this process labels alone', soft_wrap=True
        )
        engine = "asyncio"
    label = _label_on_ray if engine == "ray" else _label_here
    with interruptible():
        counts, errors, missing = _run_parts(path, folder, options, environment, console, label)
    for outcome in errors:
        say(console, f"part {outcome.part} is not written: {outcome.error}")
    say(console, f"written to {folder.name}")
    if any(outcome.code == DISK_FULL for outcome in errors):
        fix = "make room, and run the same command again: nothing is paid twice"
        raise DiskFullError("a disk was full, so some parts are not written", where=folder.name, fix=fix)
    ending = Ending.TASKS_LEFT if counts.left or errors else missing.ending
    print_ending(console, ending)
    return ending


def _run_parts(  # noqa: PLR0917 - two places, and what a run needs
    path: Path,
    folder: PartsFolder,
    options: LabelOptions,
    environment: Environment,
    console: Console,
    label: _Outcomes,
) -> tuple[RunCounts, list[_PartOutcome], Missing]:
    """Read and check the whole file, and let an engine label its parts."""
    pyarrow_parquet()
    dataset = options.dataset(open_source(path))
    folder.prepare()
    settings = settings_module.load(environment.config)
    _refuse_batches(settings)
    with Index(dataset) as index:
        with console.status("reading") as status:
            index.build(lambda rows: status.update(f"reading: {index.rows:,} rows"))
        parts = list(Part.every(index.rows, index.is_first()))
        work = _Work(
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
    # Files are often sorted, and plans learn from the first parts.
    shuffled = sorted(parts, key=lambda part: random_draw("part", work.project, part.number))
    counts, errors, missing = _gather(label(work, shuffled, console), work, rows, console)
    if not errors:
        folder.remove(Part.stale(folder.names(), len(parts)))
    return counts, errors, missing


def _refuse_batches(settings: Settings) -> None:
    """Check that no model is asked in batches."""
    if batched := [model.name for model in settings.models if model.batch]:
        raise ConfigError(
            f"{', '.join(batched)} would be asked in batches, which is for one process that waits for them",
            where="--engine",
            fix="leave out batch: true, or run it without --engine",
        )


def _agreed(work: _Work, dataset: Dataset, index: Index, console: Console) -> _Work:
    """Show the quote, ask whether to spend it, and make every part keep to it."""
    print_notes(dataset, index, console)
    with annotation_process(work.settings, work.environment, asking=False) as process:
        jobs = dataset_jobs(process, dataset, work.project, work.settings, work.options, work.tasks)
        forget_changed_rows(jobs, index)
        aim = agreed(jobs, index, work.options, console).aim_usd
    return replace(work, options=replace(work.options, aim=aim))


def _gather(
    outcomes: Iterator[_PartOutcome], work: _Work, rows: int, console: Console
) -> tuple[RunCounts, list[_PartOutcome], Missing]:
    """Sum the counts of all parts while showing the progress."""
    counts, errors = RunCounts(), []
    with closing(Ledger(work.environment.database_url)) as ledger:
        spending = Spending(ledger, work.project)

        def outlook(done: int, total: int) -> str:
            return spending.outlook(
                counts.labelled + counts.failed.total(), max(work.tasks - counts.tasks, 0)
            )

        try:
            with progress_bar(console, "labelling", rows, note=outlook) as advance:
                for outcome in outcomes:
                    counts += outcome.counts
                    if outcome.code is not None:
                        errors.append(outcome)
                        continue
                    if outcome.interrupted:
                        raise KeyboardInterrupt
                    advance(outcome.counts.rows)
        except KeyboardInterrupt:
            counts = replace(counts, rows=rows, tasks=max(work.tasks, counts.tasks))
            say(console, RunTally(counts, spending, work.settings.arms).interrupted())
            raise
        if errors:  # a part that failed may not have come to its tasks
            counts = replace(counts, rows=rows, tasks=max(work.tasks, counts.tasks))
        missing = spending.missing(work.settings.arms)
        lines = [counts.summary(spending.in_all()), *missing.lines()]
        say(console, "\n".join(lines))
    return counts, errors, missing


def _label_here(work: _Work, parts: Sequence[Part], console: Console) -> Iterator[_PartOutcome]:
    """Label parts one after another in this process."""
    with _PartLabeller(work, console) as labeller:
        for part in parts:
            yield labeller.label(part)
