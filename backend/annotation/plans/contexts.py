"""The contexts of a task's questions, embedded only when something reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from backend.annotation.job import JobQuestion
from backend.models.embedder.embedder import Embedder
from backend.questions import ConfigQuestion
from backend.settings import Settings
from backend.settings.policies import policy_of
from camvo.numerics.categories import with_category
from camvo.numerics.unknown_context import unknown_context
from camvo.typing import Array


class Contexts(Protocol):
    """The contexts of a task's questions."""

    def so_far(self, question: JobQuestion) -> Array:
        """The context, shape (d,); unknown unless somebody has asked for it."""
        ...

    async def of(self, question: JobQuestion) -> Array:
        """The context, shape (d,)."""
        ...


def always_read(settings: Settings, questions: Sequence[ConfigQuestion]) -> bool:
    """Whether every plan and prompt reads the contexts of a task's questions, so that texts are embedded."""
    aggregations = [question.control.aggregation for question in questions]
    policy = policy_of(settings.policy, aggregations)
    return bool(settings.few_shot) or any(map(policy.reads_context, aggregations))


class EmbeddedContexts:
    """The contexts of a task that has no round yet. Used from one event loop only.

    Args:
        embedder: turns texts into vectors; loaded.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, Array] = {}

    def so_far(self, question: JobQuestion) -> Array:
        """The context, shape (d,); unknown unless somebody has asked for it."""
        known = self._known.get(question.name)
        return unknown_context(self._embedder.dimension) if known is None else known

    async def of(self, question: JobQuestion) -> Array:
        """The context: the embedded text, and the category if the question has one.

        It is rounded to 16 bits before anything reads it, so that the ledger can hold the very numbers that
        the plan used in half the room; cosines change by less than 0.001.
        """
        if question.name not in self._known:
            vector = await self._embedder.vector(question.question.context)
            short = vector.astype(np.float16).astype(np.float64)
            self._known[question.name] = with_category(short, question.question.category)
        return self._known[question.name]

    async def of_all(self, questions: Sequence[JobQuestion]) -> None:
        """Embed the texts of several questions, so that :meth:`so_far` knows their contexts."""
        await asyncio.gather(*(self.of(question) for question in questions))

    def embed(self, questions: Sequence[JobQuestion]) -> asyncio.Task[None]:
        """Begin :meth:`of_all`; nobody need wait for it."""
        embedding = asyncio.ensure_future(self.of_all(questions))
        # asyncio would log an error that nobody waits for
        embedding.add_done_callback(lambda done: done.cancelled() or done.exception())
        return embedding


class StoredContexts:
    """The contexts that rounds hold.

    Args:
        contexts: question → its context, shape (d,).
    """

    def __init__(self, contexts: Mapping[str, Array]) -> None:
        self._contexts = contexts

    def so_far(self, question: JobQuestion) -> Array:
        """The context, shape (d,)."""
        return self._contexts[question.name]

    async def of(self, question: JobQuestion) -> Array:
        """The context, shape (d,); unknown if the round holds none."""
        return self._contexts[question.name]
