"""The process of a run, and the project that it labels."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from rich.console import Console
from sqlalchemy import Connection

from backend import settings as settings_module
from backend.annotation.job_questions import HeldLabels
from backend.commands.bulk.batch_run import batching_of
from backend.commands.bulk.dataset_jobs import DatasetJobs
from backend.commands.shared import backend_client
from backend.commands.shared.options import LabelOptions
from backend.commands.shared.output import say
from backend.datasets import sources
from backend.datasets.sources import Row
from backend.datasets.tasks import Columns, Dataset, DatasetTask, Index
from backend.errors import ConfigError
from backend.label_studio import payloads, predictions
from backend.label_studio.client import Client
from backend.label_studio.payloads import parse_task
from backend.learning.carrying import run_each
from backend.learning.label_schemes import Asked, begin_first, carryings, require_clear_labels, transition
from backend.learning.projects import project_settings, remember_project, require_known_labels
from backend.ledger import Ledger, migrate, projects
from backend.questions import LabelConfig, parse_label_config
from backend.questions.label_config import require_questions
from backend.runtime import AnnotationProcess
from backend.settings import Environment, Settings
from backend.threads import WorkUnderWay

PAGE = 200
"""Tasks that are fetched together."""


class ProjectTasks:
    """The tasks of a project as those of a file: each is one row, and a task of its own.

    The attributes are those of :class:`backend.datasets.tasks.IndexedTasks`. The columns are those of
    the tasks that :meth:`first_rows` has read.
    """

    def __init__(self, client: Client, number: int, tasks: int, *, untouched: bool = False) -> None:
        self._client, self._number, self._untouched = client, number, untouched
        self.rows = self.tasks = tasks
        self.columns = Columns()

    def first_rows(self) -> Iterator[DatasetTask]:
        """Read each task once, page by page."""
        for task in self._read(untouched=self._untouched):
            self.columns.add(task.row.data)
            yield task

    def every_row(self) -> Iterator[DatasetTask]:
        """Read each task again; columns that are new since the first time are left out."""
        known = set(self.columns.names)
        for task in self._read():
            data = {name: value for name, value in task.row.data.items() if name in known}
            yield replace(task, row=replace(task.row, data=data))

    @staticmethod
    def task(number: int, data: Mapping[str, Any]) -> DatasetTask:
        """One task of a project in this form."""
        return DatasetTask(Row(f"task {number}", dict(data)), str(number), number, data)

    def _read(self, *, untouched: bool = False) -> Iterator[DatasetTask]:
        """Read the tasks page by page; those that cannot be read are left out."""
        for page in self._client.pages(self._number, size=PAGE):
            for raw in predictions.untouched(page)[0] if untouched else page:
                if (parsed := parse_task(raw)) is not None:
                    yield self.task(*parsed)

    def smallest(self, draw: Callable[[int], int], count: int) -> list[int]:
        """The smallest draws of the tasks' numbers, ascending, at most ``count``."""
        return heapq.nsmallest(count, (draw(task.number) for task in self.first_rows()))

    def is_first(self) -> Iterator[bool]:
        """Each row is the first of its task, because it is the only one."""
        return repeat(True)


@contextmanager
def ledger_to_read(environment: Environment, *, asking: bool = False) -> Iterator[Environment]:
    """The environment; with a temporary empty ledger if its SQLite file does not exist yet."""
    with closing(Ledger(environment.database_url)) as ledger:
        usable = asking or ledger.exists()
    if usable:
        yield environment
        return
    with TemporaryDirectory(prefix="camvo-ledger-") as folder:
        yield environment.model_copy(update={"database_url": f"sqlite:///{Path(folder) / 'ledger.sqlite'}"})


@contextmanager
def annotation_process(
    settings: Settings, environment: Environment, *, asking: bool = True
) -> Iterator[AnnotationProcess]:
    """A started process whose models all have a key.

    With ``asking=False`` it reads the ledger and counts tokens, and needs no keys.
    """
    process = AnnotationProcess(settings, environment, ends_when_full=asking)
    if asking:
        process.start()
    try:
        if asking:
            if missing := process.pool.missing_keys():
                raise ConfigError(f"not set: {', '.join(missing)}", fix="set these variables")
            process.embedder.load()
        yield process
    finally:
        if asking:
            process.store_paid_answers(0.0)
        process.close()


def _remembered_settings(
    process: AnnotationProcess,
    project: str,
    label_config: str,
    settings: Settings,
    **said: object,
) -> Settings:
    """Store what is known of a project, ``said`` by further columns, and return its own settings.

    If its labels are those of before in another order or with other hints, its rounds are carried over.
    """
    require_known_labels(settings, parse_label_config(label_config), "policy")
    _settle(process, project, label_config, settings, said)
    with process.ledger.write() as connection:
        columns = {"label_config": label_config, **said}
        remember_project(connection, project, columns, process.clock())
        own_settings, problem = project_settings(projects.get(connection, project), settings)
    if problem is not None:
        raise problem
    return own_settings


def _settle(
    process: AnnotationProcess,
    project: str,
    label_config: str,
    settings: Settings,
    said: Mapping[str, object],
) -> None:
    with process.ledger.read() as connection:
        stored = projects.get(connection, project)
        if stored is None:
            return
        stored = replace(stored, **{name: value for name, value in said.items() if value is not None})  # type: ignore[arg-type]
        own, problem = project_settings(stored, settings)
        if problem is not None:
            raise problem
        config = parse_label_config(label_config)
        asked = Asked.under(own, config, process.embedder.identity)
        found = transition(connection, project, asked, process.clock())
    require_clear_labels(project, found.open)

    def write(transaction: Callable[[Connection], Any]) -> Any:
        with process.ledger.write() as connection:
            return transaction(connection)

    run_each(begin_first(project, found), write)
    for carrying in carryings(found, project, own):
        run_each(carrying.transactions(), write)


@dataclass(frozen=True, slots=True)
class OpenProject:
    """A project of Label Studio that a run is about."""

    client: Client
    number: int
    label_config: str
    tasks: ProjectTasks
    jobs: DatasetJobs


def _jobs(
    process: AnnotationProcess,
    project: str,
    config: LabelConfig,
    settings: Settings,
    options: LabelOptions,
    **others: Any,
) -> DatasetJobs:
    with process.ledger.read() as connection:
        asked = Asked.under(settings, config, process.embedder.identity)
        held = HeldLabels.of(connection, project, asked, options.below)
    return DatasetJobs(
        process,
        project,
        config,
        settings,
        options.retry_failed,
        options.purse,
        options.aim,
        waits=not options.no_wait,
        held=held,
        **others,
    )


def dataset_jobs(  # noqa: PLR0917 - a process, a dataset, and how it is labelled
    process: AnnotationProcess,
    dataset: Dataset,
    project: str,
    settings: Settings,
    options: LabelOptions,
    tasks: int,
) -> DatasetJobs:
    """Store what is known of a dataset's project, and return what makes jobs of its tasks."""
    with options.named_as_written():
        own_settings = _remembered_settings(
            process, project, dataset.label_config, settings, task_number=tasks
        )
    file = str(dataset.source.path.absolute())
    return _jobs(process, project, dataset.config, own_settings, options, file=file)


@contextmanager
def _open_file(
    path: Path,
    options: LabelOptions,
    settings: Settings,
    environment: Environment,
    *,
    asking: bool,
) -> Iterator[tuple[DatasetJobs, Index]]:
    """Open a file in a process of its own: its jobs, and its tasks."""
    source = sources.open_source(path)
    dataset, project = options.dataset(source), options.project(source.path)
    with Index(dataset) as index:
        index.build()
        migrate(environment.database_url)
        with annotation_process(settings, environment, asking=asking) as process:
            jobs = dataset_jobs(process, dataset, project, settings, options, index.tasks)
            yield replace(jobs, batching=batching_of(jobs.settings, process, everyone=options.batch)), index


@contextmanager
def open_project(
    client: Client,
    number: int,
    options: LabelOptions,
    settings: Settings,
    environment: Environment,
    *,
    asking: bool = True,
) -> Iterator[OpenProject]:
    """Open a project of Label Studio in a process of its own."""
    payload = client.project(number)
    key, label_config = payloads.project_key(payload), payload["label_config"]
    parsed = parse_label_config(label_config)
    require_questions(parsed)
    migrate(environment.database_url)
    environment = environment.model_copy(update={"label_studio_url": client.url})
    with annotation_process(settings, environment, asking=asking) as process:
        instructions = payloads.project_instructions(payload)
        if settings.project_instructions:
            process.pool.require_room(instructions or "", "the project's instructions in Label Studio")
        said = {"task_number": payload.get("task_number"), "instructions": instructions}
        own = _remembered_settings(process, key, label_config, settings, **said)
        batching = batching_of(own, process, everyone=options.batch)
        jobs = _jobs(process, key, parsed, own, options, batching=batching)
        tasks = ProjectTasks(client, number, client.count_tasks(number))
        yield OpenProject(client, number, label_config, tasks, jobs)


Source: TypeAlias = Path | tuple[Client, int]
"""A file, or the client of a Label Studio and the number of a project there."""


def await_answers(
    process: AnnotationProcess,
    under_way: WorkUnderWay[Any, Any],
    seconds: float,
    console: Console | None,
) -> None:
    """After Ctrl-C, ask no more, say so on a console, and wait for the answers that are paid for."""
    process.stop_asking()
    if console is not None:
        said = "stopping when the calls under way have ended; Ctrl-C drops their answers"
        say(console, f"{said}. What was bought is kept, and the same command continues")
    for _ in under_way.remaining(seconds):
        pass  # the ledger has it


def source_of(source: Path | int, environment: Environment, label_studio: str | None) -> Source:
    """A file, or the project of Label Studio with this number."""
    if isinstance(source, Path):
        return source
    return backend_client.label_studio_client(label_studio, environment), source


@contextmanager
def open_source(
    source: Source, options: LabelOptions, environment: Environment, *, asking: bool = True
) -> Iterator[tuple[DatasetJobs, Index | ProjectTasks]]:
    """The jobs and tasks of a file or of a project, in a process of its own."""
    settings = settings_module.load(environment.config)
    if isinstance(source, Path):
        with _open_file(source, options, settings, environment, asking=asking) as found:
            yield found
    else:
        with open_project(*source, options, settings, environment, asking=asking) as project:
            yield project.jobs, project.tasks
