"""Examples for prompts: the human-labelled tasks nearest to the task in question.

Off unless ``few_shot`` is set; see ``docs/few_shot.md``.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection

from backend.errors import TaskError
from backend.label_studio.payloads import WebhookEvent
from backend.learning.states import FitCache, StateKey
from backend.ledger import Ledger, projects
from backend.ledger.database.writer import outlast
from backend.ledger.human_annotations import Annotations
from backend.ledger.learning_data import ExampleTexts, LabelledTask, LearningRounds
from backend.ledger.reports import ProjectSums
from backend.ledger.rounds import RoundKey
from backend.questions import ConfigQuestion, LabelConfig
from backend.questions.controls import OneOf
from backend.questions.label_config import question_hash
from backend.settings import Settings
from camvo.scores.reviews import ExampleTrial
from camvo.typing import Array

_MOST = 16
"""Questions whose labelled tasks are kept in memory; a thousand tasks take some megabytes."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelledTasks:
    """The labelled tasks of one question, any of which can serve as an example.

    Attributes:
        tasks: the n tasks.
        contexts: their contexts, (n, d), each row of length 1.
        tried: for each model of the project, how much examples have helped it.
    """

    tasks: tuple[LabelledTask, ...]
    contexts: Array
    tried: Mapping[str, ExampleTrial]

    def nearest(self, key: RoundKey, context: Array, count: int) -> list[LabelledTask]:
        """The ``count`` tasks most similar to a context, the most similar last: models follow the last most.

        The task itself and tasks with the same text are left out.
        """
        if not self.tasks:
            return []
        similarity = self.contexts @ context
        order = np.argsort(-similarity, kind="stable").tolist()
        others = (
            task
            for task in (self.tasks[index] for index in order)
            if task.task != key.task and task.question != key.question
        )
        return [task for task, _ in zip(others, range(count), strict=False)][::-1]

    def shows_examples(self, key: RoundKey, arm: str) -> bool:
        """Whether a model is shown examples, at random but the same for one text in every process."""
        text = f"few_shot:{key.project}:{key.control}:{key.question}:{arm}"
        toss = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        return toss < self.tried.get(arm, ExampleTrial()).share * 2**64


class Examples:
    """The labelled tasks of each question. Used from one event loop only."""

    def __init__(self, ledger: Ledger, readers: Executor, *, clock: Callable[[], float]) -> None:
        self._ledger = ledger
        self._cache: FitCache[LabelledTasks] = FitCache(
            readers, clock=clock, most=_MOST, failure="examples_not_read"
        )

    async def current(self, key: StateKey) -> LabelledTasks:
        """The labelled tasks of a question as of ten seconds ago or later."""
        latest = self._cache.latest(key)
        if latest is None or self._cache.is_old(key):
            latest = await outlast(lambda: asyncio.shield(self._cache.start(key, lambda: self._load(key))))
        return latest

    def _load(self, key: StateKey) -> LabelledTasks:
        with self._ledger.read() as connection:
            tasks = LearningRounds(connection, key.project, key.control, key.epoch).examples()
            tried = ProjectSums(connection, key.project).example_trials()
        contexts = np.array([task.context / np.linalg.norm(task.context) for task in tasks])
        return LabelledTasks(tuple(tasks), contexts, tried)


def label_texts(question: ConfigQuestion) -> dict[str, str] | None:
    """The text that models see for each label; ``None`` if the question takes no examples.

    Only questions answered with one label of a closed set take examples.
    """
    if not isinstance(question.control, OneOf):
        return None
    return {label.value: label.text for label in question.control.labels}


def keep_texts(connection: Connection, event: WebhookEvent, config: LabelConfig, settings: Settings) -> None:
    """Keep the texts of the event's tasks that have a human label, if the project wants examples.

    If the project does not want examples, all its texts are deleted.
    """
    project = event.project_key
    if not settings.few_shot:
        ExampleTexts(connection, project).forget_all()
        return
    for task in event.data:
        if forget_texts(connection, project, task) or projects.is_deleted(connection, project, task):
            continue
        for question in config.questions:
            if label_texts(question) is not None:
                _keep(connection, event, task, question)


def forget_texts(connection: Connection, project: str, task: int) -> bool:
    """Delete a task's texts if none of its annotations teaches; return whether that is the case."""
    annotations = Annotations(connection, project).of_task(task)
    if any(annotation.teaches for annotation in annotations):
        return False
    ExampleTexts(connection, project).forget([task])
    return True


def _keep(connection: Connection, event: WebhookEvent, task: int, question: ConfigQuestion) -> None:
    try:
        task_question = question.about(event.data[task])
    except TaskError:
        return
    if not task_question.images:
        text_hash = question_hash(task_question.texts)
        ExampleTexts(connection, event.project_key).store(task, question.name, text_hash, task_question.texts)
