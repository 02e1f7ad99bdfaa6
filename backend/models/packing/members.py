"""A task that waits for a prompt with others, and what such a prompt is to ask."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backend.models.attempts import KEY_LENGTH
from backend.models.litellm_info import count_text, count_tokens
from backend.models.model_query import ModelQuery, PaidAnswer
from backend.questions.prompts.message_parts import Messages
from backend.questions.prompts.packs import (
    PACK_VERSION,
    TYPICAL_ID,
    PackedTask,
    packed_messages,
    packed_schema,
)


def pack_key(fingerprint: str, arm: str) -> str:
    """Return the key of a packed answer: of the arm, the template and the task's own text.

    Args:
        fingerprint: of the packed prompt about this task alone.
        arm: the name of the packed arm, which says how many tasks a prompt may hold.
    """
    size = arm.rpartition(":")[2]
    identity = f"pack {PACK_VERSION} {size} {fingerprint}"
    return hashlib.sha256(identity.encode()).hexdigest()[:KEY_LENGTH]


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One task on its way into a prompt with others.

    Attributes:
        query: the packed prompt about this task alone; ``model`` is the packed arm.
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

    @property
    def own_tokens(self) -> int:
        """The tokens of the task's own texts, by our count."""
        return count_text(self.task.fenced(TYPICAL_ID))

    def end(self, answer: PaidAnswer) -> None:
        """Give whoever waits the answer, once."""
        if not self.answer.done():
            self.answer.set_result(answer)

    def fail(self, error: BaseException) -> None:
        """Give whoever waits an error, once."""
        if not self.answer.done():
            self.answer.set_exception(error)


@dataclass(frozen=True, slots=True, eq=False)
class Pack:
    """Members that share a prompt.

    Attributes:
        members: id → member, in the order in which they are shown.
    """

    members: Mapping[str, Member]

    @property
    def messages(self) -> Messages:
        """The prompt."""
        return packed_messages({number: member.task for number, member in self.members.items()})

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema of its answer."""
        return packed_schema({number: member.task for number, member in self.members.items()})

    def only(self, keys: Sequence[str]) -> Pack:
        """The members with these keys."""
        wanted = frozenset(keys)
        return Pack({number: member for number, member in self.members.items() if member.key in wanted})

    @property
    def shares(self) -> dict[str, float]:
        """Key → the member's share of the cost: an equal part of what is shared, and its own texts."""
        first = next(iter(self.members.values()))
        shared = count_tokens((first.task.system,)) / len(self.members)
        weights = {member.key: shared + member.own_tokens for member in self.members.values()}
        total = sum(weights.values())
        return {key: weight / total for key, weight in weights.items()}
