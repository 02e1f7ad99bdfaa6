"""A task that waits for a prompt with others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from backend.models.model_query import ModelQuery, PaidAnswer
from backend.questions.prompts.packs import PackedTask


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One task on its way into a prompt with others.

    Attributes:
        query: what to ask; ``model`` is the packed arm, and the prompt about one task is not sent.
        task: the task as it stands in the prompt.
        key: the key of its answer.
        until: unix seconds; the latest time to wait.
        usable: whether an answer gives a vote.
        answer: the answer when it is there; its content is empty if the task has to be asked about singly.
    """

    query: ModelQuery
    task: PackedTask
    key: str
    until: float
    usable: Callable[[str], bool]
    answer: asyncio.Future[PaidAnswer]

    def end(self, answer: PaidAnswer) -> None:
        """Give whoever waits the answer, once."""
        if not self.answer.done():
            self.answer.set_result(answer)

    def fail(self, error: BaseException) -> None:
        """Give whoever waits an error, once."""
        if not self.answer.done():
            self.answer.set_exception(error)
