"""The tasks of a dataset as jobs: what the ledger holds of them, and which labels they keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Connection

from backend.annotation.job import Batching, Job, JobQuestion
from backend.annotation.job_questions import ALL, NONE_HELD, HeldLabels, is_below
from backend.datasets.tasks import DatasetTask
from backend.errors import TaskError
from backend.ledger import recounts, rounds
from backend.ledger.database.statements import portions
from backend.ledger.epochs import TaskCosts
from backend.ledger.money import Purse
from backend.ledger.projects import FailedTasks
from backend.ledger.rounds import Round, RoundKey
from backend.questions import LabelConfig
from backend.questions.question import hidden_questions
from backend.runtime import AnnotationProcess
from backend.server.status.formats import count, dollars
from backend.settings import Settings

_LEVELS: Final = (0.5, 0.7, 0.9, ALL)
"""The scores for which the quote says how many tasks are below."""


@dataclass(slots=True)
class ScoreLevels:
    """How many tasks have a score below each level."""

    tasks: Counter[float] = field(default_factory=Counter)

    def add(self, score: float) -> None:
        """Count a task."""
        self.tasks.update(level for level in _LEVELS if is_below(score, level))

    def lines(self, costs: TaskCosts) -> Iterator[str]:
        """The quote as sentences, by what a task has cost. One with a low score mostly costs more."""
        for level in _LEVELS:
            number = self.tasks[level]
            which = "all" if level >= ALL else f"those with a score below {level:g}"
            about, most = (dollars(number * usd) for usd in costs)
            yield f"  --below {level:g}: {which}, {count(number)} for about {about}, at most {most}"


AT_ONCE = 200
"""Tasks that are looked up in the ledger together."""


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """A task as a job, its questions with their rounds, and those that are open and can be asked.

    ``questions`` are all whose texts the task has. Those that annotators do not see, because of the labels
    of others, are neither ``decided`` nor ``open``. ``complete`` says that all questions that can be asked
    have a round, and ``failure`` is the code of the reason why the task cannot be or was not labelled.
    ``held`` are the rounds of earlier instructions, kept or not.
    """

    task: DatasetTask
    job: Job
    questions: Sequence[JobQuestion]
    decided: Sequence[tuple[JobQuestion, Round]]
    open: Sequence[JobQuestion]
    askable: bool
    complete: bool
    failure: str | None
    held: Mapping[RoundKey, Round]


@dataclass(frozen=True, slots=True)
class DatasetJobs:
    """Makes jobs of tasks, and looks them up."""

    process: AnnotationProcess
    project: str
    config: LabelConfig
    settings: Settings
    again: bool = False
    purse: Purse | None = None
    aim_usd: float | None = None
    batching: Batching | None = None
    waits: bool = True
    held: HeldLabels = NONE_HELD
    file: str | None = None

    def awaited(self) -> str:
        """What the tasks wait for now, in words; empty if for nothing."""
        return self.process.awaited(outages=self.waits)

    def look_up(
        self,
        tasks: Iterable[DatasetTask],
        also: Callable[[Connection, Sequence[int]], None] = lambda connection, numbers: None,
    ) -> Iterator[Stored]:
        """Look tasks up in the ledger, some at a time, in their order."""
        for some in portions(tasks, AT_ONCE):
            jobs = [self.job(task) for task in some]
            asked = [self._questions(job) for job in jobs]
            keys = [question.key for questions, _ in asked for question in questions]
            keys += [key for questions, _ in asked for key in self.held.keys(questions)]
            numbers = [task.number for task in some]
            with self.process.ledger.read() as connection:
                found = recounts.with_latest(connection, rounds.find_by_key(connection, keys))
                failures = FailedTasks(connection, self.project).codes_of(numbers)
                also(connection, numbers)
            for task, job, (questions, code) in zip(some, jobs, asked, strict=True):
                yield self._stored(task, job, questions, found, code or failures.get(task.number))

    def job(self, task: DatasetTask) -> Job:
        """A task as a job."""
        return Job(
            self.project,
            task.number,
            task.data,
            self.config,
            self.settings,
            self.again,
            purse=self.purse,
            aim_usd=self.aim_usd,
            batching=self.batching,
            review=False,
            waits=self.waits,
            file=self.file,
        )

    def _questions(self, job: Job) -> tuple[list[JobQuestion], str | None]:
        """The questions that can be asked; without one, the code of the reason."""
        try:
            return self.process.questions.with_texts(job), None
        except TaskError as error:
            return [], error.code

    def _stored(
        self,
        task: DatasetTask,
        job: Job,
        questions: Sequence[JobQuestion],
        found: Mapping[RoundKey, Round],
        failure: str | None,
    ) -> Stored:
        held = self.held.of_task(questions, found)
        kept = {**found, **held} if self.held.keeps(held) else found
        decided = [(question, kept[question.key]) for question in questions if question.key in kept]
        labels = {question.name: round_.label for question, round_ in decided}
        hidden = hidden_questions([question.config for question in questions], labels)
        undecided = [
            question for question in questions if question.key not in kept and question.name not in hidden
        ]
        askable = bool(questions)
        shown = [(question, round_) for question, round_ in decided if question.name not in hidden]
        return Stored(
            task, job, questions, shown, undecided, askable, askable and not undecided, failure, held
        )
