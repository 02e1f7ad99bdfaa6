"""One process that labels parts of a dataset, each into a file of its own."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from rich.console import Console

from backend.commands.label.dataset_jobs import DatasetJobs
from backend.commands.label.label_tasks import label_tasks
from backend.commands.label.options import LabelOptions
from backend.commands.label.project.project_process import annotation_process
from backend.commands.label.results import results
from backend.commands.label.run import dataset_jobs
from backend.commands.label.run_counts import RunCounts
from backend.datasets.columns import Columns
from backend.datasets.parts import Part, PartTasks
from backend.datasets.sinks.parquet_file import ParquetSink
from backend.datasets.sinks.parts_folder import PartsFolder
from backend.datasets.sources.open_source import open_source
from backend.datasets.tasks import Dataset
from backend.models.embedder.embedder import Embedder
from backend.settings import Environment, Settings
from camvo.errors import CamvoError

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Work:
    """What every process of a run is told. It can be sent to other hosts, which see the same files.

    Attributes:
        path: the file of the tasks.
        folder: where the results go.
        options: how to label.
        settings: the settings of every project.
        environment: the ledger's address and the secrets.
        project: the project's name in the ledger.
        columns: the columns of the whole file.
        tasks: how many tasks it has.
    """

    path: Path
    folder: PartsFolder
    options: LabelOptions
    settings: Settings
    environment: Environment
    project: str
    columns: Columns
    tasks: int


@dataclass(frozen=True, slots=True)
class PartOutcome:
    """What came of one part.

    Attributes:
        part: its number.
        counts: what was done with its tasks.
        code: the code of the error that ended it early; ``None`` if none did.
        error: the same for people.
    """

    part: int
    counts: RunCounts = field(default_factory=RunCounts)
    code: str | None = None
    error: str | None = None


class PartLabeller:
    """Labels parts, one after another, with one runtime. A context manager.

    Args:
        work: what is to be done.
        embedder: an embedder to use instead of a new one; closed at the end.
    """

    def __init__(self, work: Work, embedder: Embedder | None = None) -> None:
        self._work, self._embedder = work, embedder
        self._dataset: Dataset = work.options.dataset(open_source(work.path))
        self._opened = ExitStack()
        self._jobs: DatasetJobs | None = None

    def __enter__(self) -> PartLabeller:
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def label(self, part: Part) -> PartOutcome:
        """Label a part and write its file. A part that cannot be labelled does not end those after it.

        The file is the same whoever writes it: it says what the ledger holds of the part's rows. So a part
        may be labelled again after its process was killed, or by two processes at once.
        """
        try:
            counts = self._label(part)
        except CamvoError as error:
            self._close()  # the runtime asks nothing any more; the next part opens another
            return PartOutcome(part.number, code=error.code, error=str(error))
        except Exception as error:  # its text might quote a task
            _log.error("part_failed", part=part.number, kind=type(error).__name__)
            self._close()
            return PartOutcome(part.number, code="internal", error=type(error).__name__)
        return PartOutcome(part.number, counts)

    def _label(self, part: Part) -> RunCounts:
        work = self._work
        jobs, tasks = self._open(), PartTasks(self._dataset, part, work.columns)
        tally = label_tasks(jobs, tasks, Console(quiet=True))
        with ParquetSink(work.folder.file(part.file_name), work.columns) as sink:
            for result in results(tasks, jobs):
                sink.write(result)
        return tally.counts

    def _open(self) -> DatasetJobs:
        if self._jobs is None:
            work = self._work
            process = self._opened.enter_context(
                annotation_process(work.settings, work.environment, self._embedder)
            )
            self._jobs = dataset_jobs(
                process, self._dataset, work.project, work.settings, work.options, work.tasks
            )
        return self._jobs

    def _close(self) -> None:
        self._jobs = None
        self._opened.close()
