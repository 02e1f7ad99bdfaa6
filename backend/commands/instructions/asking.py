"""A project's or a file's tasks, what people say about them, and what models say with one text or another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import structlog
from rich.console import Console

from backend.annotation.job import JobQuestion, is_audit
from backend.annotation.job_questions import NONE_HELD
from backend.annotation.trials import TrialPrice, TriedTask
from backend.commands.bulk.dataset_jobs import DatasetJobs
from backend.commands.bulk.process import Source, await_answers, open_source, source_of
from backend.commands.shared.arguments import ChosenTasks, quiet_environment, read_text
from backend.commands.shared.options import LabelOptions
from backend.commands.shared.setup import interruptible
from backend.datasets.tasks import DatasetTask, IndexedTasks
from backend.errors import ConfigError, TaskError
from backend.learning.projects import project_settings
from backend.learning.teaching import answering, person
from backend.ledger import projects
from backend.ledger.human_annotations import Annotation, Annotations
from backend.ledger.projects import Project, is_of_label_studio
from backend.ledger.rounds import ProjectRounds
from backend.questions.objects import instructions_text
from backend.settings import Environment
from backend.threads import WorkUnderWay
from camvo.errors import CamvoError
from camvo.votes.registry import agreed_answer

_HTML: Final = (".html", ".htm")

_log = structlog.get_logger(__name__)


@contextmanager
def opened_on_terminal(
    chosen: ChosenTasks, *, as_json: bool
) -> Iterator[tuple[DatasetJobs, IndexedTasks, Console]]:
    """:func:`opened` for a command that people may interrupt, with its console: stderr if it prints JSON."""
    environment = quiet_environment(chosen.config)
    found = source_of(chosen.source, environment, chosen.label_studio)
    with interruptible(), opened(found, chosen.options, environment) as (jobs, tasks):
        yield jobs, tasks, Console(stderr=as_json)


@contextmanager
def opened(
    source: Source, options: LabelOptions, environment: Environment, *, asking: bool = True
) -> Iterator[tuple[DatasetJobs, IndexedTasks]]:
    """The jobs and tasks of a file or of a project, which keep no labels of earlier instructions."""
    with open_source(source, options, environment, asking=asking) as (jobs, tasks):
        yield replace(jobs, purse=None, batching=None, held=NONE_HELD), tasks


def own_text(jobs: DatasetJobs) -> str:
    """The text that :func:`with_text` replaces; empty for none."""
    if not is_in_project(jobs):
        return jobs.settings.instructions or ""
    return _stored(jobs).instructions or ""


def with_text(jobs: DatasetJobs, text: str) -> DatasetJobs:
    """The jobs with a new text where the project's instructions are now.

    A project of Label Studio has them there; otherwise they are those of the settings.
    """
    if not is_in_project(jobs):
        return replace(jobs, settings=jobs.settings.model_copy(update={"instructions": text}))
    own, problem = project_settings(replace(_stored(jobs), instructions=text), jobs.process.settings)
    if problem is not None:
        raise problem
    return replace(jobs, settings=own)


def is_in_project(jobs: DatasetJobs) -> bool:
    """Whether :func:`own_text` is that of the project in Label Studio, not that of the settings."""
    return is_of_label_studio(jobs.project) and jobs.settings.project_instructions


def _stored(jobs: DatasetJobs) -> Project:
    with jobs.process.ledger.read() as connection:
        stored = projects.get(connection, jobs.project)
    assert stored is not None, "the project was stored when it was opened"  # noqa: S101
    return stored


def read_instructions(path: Path, option: str) -> str:
    """The instructions of a file that an option names: HTML as models would read it, or plain text.

    Only the file's ending says that it is HTML: a plain text may hold ``<``, too.
    """
    written = read_text(path, option)
    text = instructions_text(written) if path.suffix.lower() in _HTML else written.strip()
    if not text:
        raise ConfigError(f"{path} has no text", where=option, fix="write the instructions into it")
    return text


def annotated_tasks(jobs: DatasetJobs) -> dict[int, list[Annotation]]:
    """The annotations that say something, by task."""
    names = {question.name for question in jobs.config.questions}
    found: dict[int, list[Annotation]] = {}
    with jobs.process.ledger.read() as connection:
        for annotation in Annotations(connection, jobs.project).all():
            says = annotation.teaches and not annotation.withdrawn and names & annotation.labels.keys()
            if says and annotation.task is not None:
                found.setdefault(annotation.task, []).append(annotation)
    return found


def kept_blind(jobs: DatasetJobs) -> Callable[[int], bool]:
    """Whether a task, by its number, is or will be kept blind."""
    with jobs.process.ledger.read() as connection:
        blind = ProjectRounds(connection, jobs.project).blind_tasks()
    audit = jobs.settings.audit if is_of_label_studio(jobs.project) else 0.0
    return lambda number: number in blind or is_audit(jobs.project, number, audit)


def peoples_label(annotations: Iterable[Annotation], question: JobQuestion) -> str | None:
    """What people say about a question of a task; tied people say nothing."""
    counted = answering(annotations, question.name, question.aggregation, question.options)
    said = {person(each): each.labels[question.name] for each in counted}
    return agreed_answer(question.aggregation, list(said.values()), question.options)


def price_of(jobs: DatasetJobs, tasks: Sequence[DatasetTask], advance: Callable[[int], object]) -> TrialPrice:
    """What the answers of all models about these tasks cost that the ledger does not hold."""
    process, price = jobs.process, TrialPrice()
    for job in map(jobs.job, tasks):
        try:
            price += process.thread.submit(process.trials.price(job)).result()
        except TaskError:
            _log.debug("task_not_priced", task=job.task)
        advance(1)
    return price


Outcome = TriedTask | str
"""What models say about a task, or the code of the reason why they were not asked."""


def ask_about(
    sides: Sequence[DatasetJobs],
    tasks: Sequence[DatasetTask],
    console: Console,
    advance: Callable[[int], object],
) -> list[list[Outcome]]:
    """Ask about each task with each of the texts. What is bought is kept if the command is interrupted."""
    process = sides[0].process
    asked: list[list[Outcome]] = [[""] * len(sides) for _ in tasks]
    waiting = deque(
        (row, place, side.job(task)) for row, task in enumerate(tasks) for place, side in enumerate(sides)
    )
    running: WorkUnderWay[tuple[int, int], TriedTask] = WorkUnderWay(process.thread.submit)
    try:
        while waiting or running:
            while waiting and len(running) < sides[0].settings.tasks_at_once:
                row, place, job = waiting.popleft()
                running.start((row, place), process.trials.ask(job))
            (row, place), done = running.next_ended()
            asked[row][place] = _outcome(done)
            advance(1)
    except BaseException:
        await_answers(process, running, sides[0].settings.longest_call, console)
        raise
    return asked


def _outcome(done: Future[TriedTask]) -> Outcome:
    error = done.exception()
    if error is None:
        return done.result()
    if isinstance(error, CamvoError) and not isinstance(error, TaskError):
        raise error
    if isinstance(error, TaskError):
        return error.code
    _log.error("task_failed", kind=type(error).__name__)  # the text of the error might quote the task
    return "internal"
