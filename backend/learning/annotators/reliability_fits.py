"""How often each annotator is right is fitted again as labels come in, and the human labels go by it.

What a label taught is never recomputed from old weights: a round records the label that it was taught, and a
changed human label appends the difference. So the same annotations and fits give the same labels in any
order, and a repeated step changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import structlog
from sqlalchemy import Connection

from backend.label_studio.webhooks import WebhookEvent
from backend.learning.annotators.peoples_answers import AnsweredQuestion, answered_questions
from backend.learning.human_labels import weigh
from backend.learning.teaching import correct_rewards
from backend.ledger import Ledger, Writer, human_annotations
from backend.ledger.annotators import reliabilities
from backend.ledger.annotators.reliabilities import StoredReliabilities
from backend.ledger.database import outages
from backend.settings import Settings
from camvo.annotators.reliability import fit_reliabilities
from camvo.errors import CamvoError

_TASKS_PER_TRANSACTION: Final = 20
_FIRST: Final = 10
"""The fewest annotations between two fits."""

_NEWS: Final = 1e-6
"""A fit is stored if the accuracy of anybody differs by more than rounding."""

_T = TypeVar("_T")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ReliabilityFits:
    """Fits and applies the reliabilities of a project's annotators. Used from one event loop only.

    Attributes:
        ledger: where the annotations are read.
        writer: writes fits and corrections, a few tasks per transaction.
        readers: the threads that read and fit.
        settings: the server's settings.
        clock: returns unix seconds.
    """

    ledger: Ledger
    writer: Writer
    readers: Executor
    settings: Settings
    clock: Callable[[], float]

    async def __call__(self, event: WebhookEvent) -> None:
        """Fit again, as a training step; a failure of the ledger is logged."""
        await self.fit(event.project_key)

    async def fit(self, project: str) -> None:
        """Fit the reliabilities of every question of a project, store those that are news, and apply them."""
        try:
            while not await self._store_news(project):
                pass  # another fit took the number, perhaps one of fewer annotations
            await self.apply(project)
        except CamvoError as error:
            _log.error("reliabilities_not_fitted", project=project, code=error.code, reason=str(error))

    async def _store_news(self, project: str) -> bool:
        """Fit, and store what is news; return whether all of it was stored."""
        news = await self._read(partial(_news, project, self.clock()))
        return all([await self.writer.persist(partial(reliabilities.store, fit=fit)) for fit in news])

    async def apply(self, project: str) -> None:
        """Correct every task whose human label differs by the latest fits, unless that is done already."""
        for fit, tasks in await self._read(partial(_to_correct, project)):
            for start in range(0, len(tasks), _TASKS_PER_TRANSACTION):
                portion = tasks[start : start + _TASKS_PER_TRANSACTION]
                await self.writer.persist(partial(self._correct, project, portion))
            await self.writer.persist(partial(reliabilities.set_applied, fit=fit))
            _log.info(
                "reliabilities_fitted",
                project=project,
                control=fit.control,
                annotators=len(fit.accuracies),
                tasks_changed=len(tasks),
            )

    async def annotations(self, project: str) -> tuple[int, int]:
        """How many annotations of a project may teach now, and how many did at its latest fit."""
        return await self._read(partial(_counts, project))

    async def unapplied(self) -> list[str]:
        """The projects with a fit that is not applied to all tasks, because a process stopped."""
        return await self._read(reliabilities.unapplied)

    async def _read(self, function: Callable[[Connection], _T]) -> _T:
        return await outages.read(self.ledger, self.readers, function)

    def _correct(self, project: str, tasks: Sequence[int], connection: Connection) -> None:
        for task in tasks:
            correct_rewards(connection, project, task, self.settings, self.clock())


def is_due(annotations: int, fitted_on: int) -> bool:
    """Whether so many annotations are far enough from those of the last fit: a tenth, and ten."""
    return abs(annotations - fitted_on) >= fitted_on / 10 + _FIRST


def _counts(project: str, connection: Connection) -> tuple[int, int]:
    return human_annotations.count(connection, project), reliabilities.fitted_on(connection, project)


def _news(project: str, now: float, connection: Connection) -> list[StoredReliabilities]:
    """The fits that differ from the stored ones."""
    annotations = human_annotations.count(connection, project)
    found = []
    for question in answered_questions(connection, project):
        if not question.is_labels:
            continue
        tasks = [question.peoples_task(task) for task in question.annotations]
        people = fit_reliabilities(tasks, len(question.options)).people
        accuracies = {name: reliability.right for name, reliability in people.items()}
        stored = reliabilities.latest(connection, project, question.control)
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
        for fit in reliabilities.latest(connection, project, question.control)
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
