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

from backend.learning.fit_cache import PAUSE, FitCache
from backend.learning.states import StateKey
from backend.ledger import Ledger, example_texts, reports
from backend.ledger.database.outages import outlast
from backend.ledger.example_texts import LabelledTask
from backend.ledger.rounds import RoundKey
from camvo.scores.few_shot import ExampleTrial
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
        read_at: when the ledger was read, in unix seconds.
    """

    tasks: tuple[LabelledTask, ...]
    contexts: Array
    tried: Mapping[str, ExampleTrial]
    read_at: float

    def nearest(self, key: RoundKey, context: Array, count: int) -> list[LabelledTask]:
        """The ``count`` tasks most similar to a context, the most similar last: models heed the last most.

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
    """The labelled tasks of each question. Used from one event loop only.

    Args:
        ledger: where the tasks are read.
        readers: the threads that read the ledger.
        clock: returns unix seconds.
    """

    def __init__(self, ledger: Ledger, readers: Executor, *, clock: Callable[[], float]) -> None:
        self._ledger, self._clock = ledger, clock
        self._cache: FitCache[LabelledTasks] = FitCache(readers, most=_MOST, failure="examples_not_read")

    async def current(self, key: StateKey) -> LabelledTasks:
        """The labelled tasks of a question as of ten seconds ago or later."""
        latest = self._cache.latest(key)
        if latest is None or self._clock() - latest.read_at >= PAUSE:
            latest = await outlast(lambda: asyncio.shield(self._cache.start(key, lambda: self._load(key))))
        return latest

    def _load(self, key: StateKey) -> LabelledTasks:
        now = self._clock()
        with self._ledger.read() as connection:
            tasks = example_texts.labelled_tasks(connection, key.project, key.control, key.epoch)
            tried = reports.sum_example_trials(connection, key.project)
        contexts = np.array([task.context / np.linalg.norm(task.context) for task in tasks])
        return LabelledTasks(tuple(tasks), contexts, tried, now)
