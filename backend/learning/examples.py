"""Examples for prompts: the human-labelled tasks nearest to the task in question.

Off unless ``few_shot`` is set; see ``docs/few_shot.md``.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from backend.learning.states import FitCache
from backend.ledger import LedgerAccess
from backend.ledger.database.writer import outlast
from backend.ledger.events import StateKey
from backend.ledger.learning_data import LabelledTask, LearningRounds
from backend.ledger.reports import ProjectSums
from backend.ledger.rounds import RoundKey
from backend.questions import ConfigQuestion
from backend.questions.controls import OneOf
from camvo.scores.reviews import ExampleTrial
from camvo.typing import Array

_MOST = 16
"""Questions whose labelled tasks are kept in memory; a thousand tasks take some megabytes."""


@dataclass(frozen=True, slots=True, eq=False)
class _LabelledTasks:
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

    def __init__(self, access: LedgerAccess) -> None:
        self._ledger = access.ledger
        self._cache: FitCache[_LabelledTasks] = FitCache(
            access.readers, most=_MOST, failure="examples_not_read"
        )

    async def current(self, key: StateKey) -> _LabelledTasks:
        """The labelled tasks of a question as of ten seconds ago or later."""
        latest = self._cache.latest(key)
        if latest is None or self._cache.is_old(key):
            latest = await outlast(lambda: asyncio.shield(self._cache.start(key, lambda: self._load(key))))
        return latest

    def _load(self, key: StateKey) -> _LabelledTasks:
        with self._ledger.read() as connection:
            tasks = LearningRounds(connection, key.project, key.control, key.epoch).examples()
            tried = ProjectSums(connection, key.project).example_trials()
        contexts = np.array([task.context / np.linalg.norm(task.context) for task in tasks])
        return _LabelledTasks(tuple(tasks), contexts, tried)


def label_texts(question: ConfigQuestion) -> dict[str, str] | None:
    """The text that models see for each label; ``None`` if the question takes no examples.

    Only questions answered with one label of a closed set take examples.
    """
    if not isinstance(question.control, OneOf):
        return None
    return {label.value: label.text for label in question.control.labels}
