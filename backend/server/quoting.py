"""What labelling a project will cost, for a client that sends the project's tasks page by page.

The server keeps nothing between two requests: the client holds the sums, so any worker process can answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import astuple, fields
from typing import Any

from backend.annotation.job import Job
from backend.errors import BadBodyError
from backend.label_studio.payloads import parse_task
from backend.questions import LabelConfig
from backend.questions.label_config import require_questions
from backend.quotes.job_tally import JobTally
from backend.quotes.quote import Quote
from backend.quotes.quote_maker import QuoteMaker
from backend.runtime.annotation_process import AnnotationProcess
from backend.server.lasting_work import LastingWork
from backend.settings import Settings


class Quotes:
    """Counts tasks, and makes quotes of what was counted.

    Args:
        process: has the models and the ledger.
        settings: returns a project's settings.
        threads: where policies are replayed.
        deadline: the seconds that a request may take.
    """

    def __init__(
        self,
        process: AnnotationProcess,
        settings: Callable[[str], Settings],
        threads: Executor,
        deadline: float,
    ) -> None:
        self._process, self._settings, self._threads = process, settings, threads
        self._under_way = LastingWork[Quote](deadline)

    def count(
        self, project: str, config: LabelConfig, tasks: Sequence[Any]
    ) -> tuple[dict[str, int], int | None]:
        """Count some tasks of a project.

        Args:
            project: the project's key.
            config: its label config.
            tasks: the tasks as received; malformed ones are left out.

        Returns:
            The sums, and the number of the task to send with :meth:`quote`; ``None`` without any.

        Raises:
            BadLabelConfigError: the config has no control that can be voted on.
            ConfigError: the project's stored ``extra_params`` no longer fit the settings.
            LedgerError: the ledger cannot be read.
        """
        require_questions(config)
        settings = self._settings(project)
        maker = QuoteMaker(self._process, settings, project)
        maker.count(_jobs(project, config, settings, tasks))
        sums = {field.name: getattr(maker.tally, field.name) for field in fields(maker.tally)}
        return sums, None if maker.example is None else maker.example.task

    def quote(
        self, project: str, config: LabelConfig, example: Sequence[Any], counted: Mapping[str, int]
    ) -> Quote:
        """The quote of tasks that were counted.

        Args:
            project: the project's key.
            config: its label config.
            example: a task whose questions are those of the job, as received; none if no task is to come.
            counted: the sums over all tasks.

        Raises:
            TimeoutError: it was not done by the deadline; it goes on, and the same request gets it.
            BadBodyError: there are other sums than these.
        """
        require_questions(config)
        tally, settings = _tally(counted), self._settings(project)

        def start() -> Future[Quote]:
            maker = QuoteMaker(self._process, settings, project, tally=tally)
            for job in _jobs(project, config, settings, example[:1]):
                maker.ask_as_of(job)
            return self._threads.submit(maker.quote)

        return self._under_way.result((project, repr(example), astuple(tally)), start)


def _jobs(project: str, config: LabelConfig, settings: Settings, tasks: Sequence[Any]) -> list[Job]:
    parsed = [task for raw in tasks if (task := parse_task(raw)) is not None]
    return [Job(project, *task, config, settings) for task in parsed]


def _tally(counted: Mapping[str, int]) -> JobTally:
    if counted.keys() != {field.name for field in fields(JobTally)}:
        raise BadBodyError(
            "other sums than those of a count", where="body.counted", fix="send what POST /quote answers"
        )
    return JobTally(**counted)
