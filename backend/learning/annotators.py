"""Refits annotators' reliabilities in the background, once there are enough new labels."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog
from sqlalchemy import Connection

from backend.label_studio.payloads import WebhookEvent
from backend.learning.teaching import aggregation_of, answering, correct_tasks, person, weigh
from backend.ledger import LedgerAccess, learning_data
from backend.ledger.human_annotations import Annotation, Annotations
from backend.ledger.learning_data import JudgedRound, LearningRounds, Reliabilities, StoredReliabilities
from backend.ledger.reports import QuestionSums
from backend.ledger.rounds import ProjectRounds
from backend.settings import Settings
from camvo.annotators import PeoplesTask, fit_reliabilities
from camvo.errors import CamvoError
from camvo.votes import registry
from camvo.votes.aggregation import Aggregation
from camvo.votes.labels import LABEL_VOTE


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """One question in its latest epoch, with the people's answers.

    Attributes:
        control: the name of its control tag.
        aggregation: how its votes are counted.
        options: its labels or items.
        annotations: task → the annotations that answer the question and count, by id.
        rounds: task → its latest round; tasks without a round are absent.
        unclear: task → the annotations of people whose label was split or dropped since, where nobody has
            said more.
    """

    control: str
    aggregation: Aggregation
    options: Sequence[str]
    annotations: Mapping[int, Sequence[Annotation]]
    rounds: Mapping[int, JudgedRound]
    unclear: Mapping[int, Sequence[Annotation]]

    @property
    def is_labels(self) -> bool:
        """Whether people choose one of several labels."""
        return self.aggregation == LABEL_VOTE and len(self.options) > 1

    def truth(self, task: int) -> str | None:
        """The ground truth on a task; ``None`` if no annotation is marked, or the marked ones differ."""
        truths = [
            annotation.labels[self.control]
            for annotation in self.annotations[task]
            if annotation.ground_truth
        ]
        return registry.agreed_answer(self.aggregation, truths, self.options)

    def peoples_task(self, task: int) -> PeoplesTask:
        """A task as the reliabilities are learnt from it.

        The author of a ground truth is not judged by it. Models are witnesses only if nobody was shown the
        prediction.
        """
        annotations, round_ = self.annotations[task], self.rounds.get(task)
        shown = any(annotation.prediction_shown for annotation in annotations)
        cast = {} if shown or round_ is None else round_.votes
        return PeoplesTask(
            {
                person(annotation): annotation.labels[self.control]
                for annotation in annotations
                if not annotation.ground_truth and annotation.completed_by is not None
            },
            {arm: vote for arm, vote in cast.items() if vote is not None},
            self.truth(task),
        )


def answered_questions(connection: Connection, project: str) -> list[AnsweredQuestion]:
    """Return the project's questions that models voted on, each with all answers of people to it."""
    of_task = _by_task(Annotations(connection, project).all())
    questions = []
    for control, epoch in sorted(ProjectRounds(connection, project).latest_epochs().items()):
        plan = QuestionSums(connection, project, control, epoch).latest_plan()
        if plan is None:
            continue
        aggregation, options = aggregation_of(plan), plan["labels"]
        answers = {
            task: counted
            for task, annotations in of_task.items()
            if (counted := answering(annotations, control, aggregation, options))
        }
        unclear = {
            task: lost
            for task, annotations in of_task.items()
            if task not in answers and (lost := _without_label(annotations, control))
        }
        rounds = LearningRounds(connection, project, control, epoch).judged()
        questions.append(AnsweredQuestion(control, aggregation, options, answers, rounds, unclear))
    return questions


def _without_label(annotations: Iterable[Annotation], control: str) -> list[Annotation]:
    """The annotations that answer a question whose labels have changed since."""
    return [
        each
        for each in annotations
        if each.teaches and not each.withdrawn and control in each.labels and each.relabelled.get(control)
    ]


def _by_task(annotations: Iterable[Annotation]) -> dict[int, list[Annotation]]:
    """Group annotations by their task, in order."""
    of_task: dict[int, list[Annotation]] = defaultdict(list)
    for annotation in annotations:
        if annotation.task is not None:
            of_task[annotation.task].append(annotation)
    return dict(sorted(of_task.items()))


_FIRST: Final = 10
"""The fewest annotations between two fits."""

_NEWS: Final = 1e-6
"""A fit is stored if the accuracy of anybody differs by more than rounding."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ReliabilityFits:
    """Fits and applies the reliabilities of a project's annotators. Used from one event loop only."""

    access: LedgerAccess
    settings: Settings

    async def __call__(self, event: WebhookEvent) -> None:
        """Fit again, as a training step; a failure of the ledger is logged."""
        await self.fit(event.project_key)

    async def fit(self, project: str) -> None:
        """Fit the reliabilities of a project's questions, store those that have changed, and apply them."""
        try:
            while not await self._store_news(project):
                pass  # another fit took the number, perhaps one of fewer annotations
            await self.apply(project)
        except CamvoError as error:
            _log.error("reliabilities_not_fitted", project=project, code=error.code, reason=str(error))

    async def _store_news(self, project: str) -> bool:
        """Fit, and store what has changed; return whether all of it was stored."""
        news = await self.access.read(partial(_news, project, self.access.clock()))
        return all([await self.access.writer.persist(fit.store) for fit in news])

    async def apply(self, project: str) -> None:
        """Correct every task whose human label differs by the latest fits, unless that is done already."""
        for fit, tasks in await self.access.read(partial(_to_correct, project)):
            await correct_tasks(self.access, self.settings, project, tasks)
            await self.access.writer.persist(fit.set_applied)
            _log.info(
                "reliabilities_fitted",
                project=project,
                control=fit.control,
                annotators=len(fit.accuracies),
                tasks_changed=len(tasks),
            )

    @staticmethod
    def is_due(annotations: int, fitted_on: int) -> bool:
        """Whether the number of annotations differs from that of the last fit by a tenth, plus ten."""
        return abs(annotations - fitted_on) >= fitted_on / 10 + _FIRST

    async def fit_if_due(self, project: str) -> None:
        """Fit a project, if enough of its labels have changed since the latest fit."""
        if self.is_due(*await self.annotations(project)):
            await self.fit(project)

    async def annotations(self, project: str) -> tuple[int, int]:
        """How many annotations of a project may teach now, and how many did at its latest fit."""
        return await self.access.read(partial(_counts, project))

    async def unapplied(self) -> list[str]:
        """The projects with a fit that is not applied to all tasks, because a process stopped."""
        return await self.access.read(learning_data.unapplied)


def _counts(project: str, connection: Connection) -> tuple[int, int]:
    return Annotations(connection, project).count(), Reliabilities(connection, project).fitted_on()


def _news(project: str, now: float, connection: Connection) -> list[StoredReliabilities]:
    """The fits that differ from the stored ones."""
    annotations = Annotations(connection, project).count()
    found = []
    for question in answered_questions(connection, project):
        if not question.is_labels:
            continue
        tasks = [question.peoples_task(task) for task in question.annotations]
        people = fit_reliabilities(tasks, len(question.options)).people
        accuracies = {name: reliability.right for name, reliability in people.items()}
        stored = Reliabilities(connection, project).latest(question.control)
        before = stored[0].accuracies if stored else {}
        differs = accuracies.keys() != before.keys() or any(
            abs(right - before[name]) > _NEWS for name, right in accuracies.items()
        )
        if differs:
            number = stored[0].number + 1 if stored else 1
            found.append(
                StoredReliabilities(project, question.control, number, accuracies, annotations, False, now)
            )
    return found


def _to_correct(project: str, connection: Connection) -> list[tuple[StoredReliabilities, list[int]]]:
    """The latest fits that are not applied yet, each with the tasks whose human label it changes."""
    return [
        (fit, _changed(question, fit))
        for question in answered_questions(connection, project)
        for fit in Reliabilities(connection, project).latest(question.control)
        if not fit.applied
    ]


def _changed(question: AnsweredQuestion, fit: StoredReliabilities) -> list[int]:
    """The tasks whose stored human label is not the one by this fit."""
    return [
        task
        for task, round_ in question.rounds.items()
        if (counted := question.annotations.get(task))
        and not any(annotation.ground_truth for annotation in counted)
        and weigh(counted, question.control, fit.accuracies, len(question.options)) != round_.human
    ]


class ReliabilityWatch:
    """Fits projects whose labels have changed enough. Used from one event loop only."""

    def __init__(self, fits: ReliabilityFits) -> None:
        self._fits = fits
        self._changed: set[str] = set()
        self._looked_at: dict[str, int] = {}
        self._woken = asyncio.Event()

    def wake(self, project: str) -> None:
        """Look at a project, since an annotation was made, changed or deleted."""
        self._changed.add(project)
        self._woken.set()

    async def run(self) -> None:
        """Apply what an earlier process left, then fit projects until cancelled."""
        try:
            for project in await self._fits.unapplied():
                await self._fits.apply(project)
        except CamvoError as error:
            _log.error("reliabilities_not_applied", code=error.code, reason=str(error))
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._changed:
                await self._look_at(self._changed.pop())

    async def _look_at(self, project: str) -> None:
        try:
            annotations, fitted_on = await self._fits.annotations(project)
        except CamvoError as error:
            _log.error("annotations_not_counted", project=project, code=error.code, reason=str(error))
            return
        if self._fits.is_due(annotations, self._looked_at.get(project, fitted_on)):
            self._looked_at[project] = annotations
            await self._fits.fit(project)
