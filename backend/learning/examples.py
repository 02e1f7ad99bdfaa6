"""Examples for prompts: the human-labelled tasks nearest to the one that is asked about.

Off unless ``few_shot`` is set; see ``docs/few_shot.md``.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from backend.learning.fits import PAUSE, Fits
from backend.learning.states import StateKey
from backend.ledger import Ledger, example_texts, reports
from backend.ledger.example_texts import LabelledTask
from backend.ledger.rounds import RoundKey
from camvo.scores.few_shot import ExampleTrial
from camvo.typing import Array

_MOST = 16
"""Questions whose labelled tasks are kept in memory: a thousand take some megabytes."""


@dataclass(frozen=True, slots=True, eq=False)
class Shelf:
    """The labelled tasks of one question: their contexts are the rows of ``contexts``, of length 1.

    ``tried`` says what examples have been worth to each model of the project.
    """

    tasks: tuple[LabelledTask, ...]
    contexts: Array
    tried: Mapping[str, ExampleTrial]
    read_at: float

    def nearest(self, key: RoundKey, context: Array, count: int) -> list[LabelledTask]:
        """The tasks most alike, the most alike last, where a model heeds it most.

        Never the task itself, nor one that says word for word the same.
        """
        if not self.tasks:
            return []
        likeness = self.contexts @ context
        order = np.argsort(-likeness, kind="stable").tolist()
        others = (
            task
            for task in (self.tasks[at] for at in order)
            if task.task != key.task and task.question != key.question
        )
        return [task for task, _ in zip(others, range(count), strict=False)][::-1]

    def shows(self, key: RoundKey, arm: str) -> bool:
        """Whether a model is shown examples, by a coin that falls alike for one text in every process."""
        text = f"few_shot:{key.project}:{key.control}:{key.question}:{arm}"
        toss = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        return toss < self.tried.get(arm, ExampleTrial()).share * 2**64


class Examples:
    """The shelves, by question. Used from one event loop only; ``readers`` read the ledger."""

    def __init__(self, ledger: Ledger, readers: Executor, *, clock: Callable[[], float]) -> None:
        self._ledger, self._clock = ledger, clock
        self._fits: Fits[Shelf] = Fits(readers, most=_MOST, failure="examples_not_read")

    async def shelf(self, key: StateKey) -> Shelf:
        """What the ledger holds by now, or held a moment ago."""
        shelf = self._fits.latest(key)
        if shelf is None or self._clock() - shelf.read_at >= PAUSE:
            shelf = await asyncio.shield(self._fits.start(key, lambda: self._read(key)))
        return shelf

    def _read(self, key: StateKey) -> Shelf:
        now = self._clock()
        with self._ledger.read() as connection:
            found = example_texts.labelled_tasks(connection, key.project, key.control, key.epoch)
            tried = reports.sum_example_trials(connection, key.project)
        contexts = np.array([one.context / np.linalg.norm(one.context) for one in found])
        return Shelf(tuple(found), contexts, tried, now)
