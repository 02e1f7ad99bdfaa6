"""A prompt about several tasks, whether it is sent at once or in a provider's batch."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

import structlog

from backend.models.attempts import KEY_LENGTH
from backend.models.litellm_info import count_text, count_tokens
from backend.models.pool import Pool
from backend.questions.prompts.message_parts import Messages
from backend.questions.prompts.packs import (
    PACK_VERSION,
    TYPICAL_ID,
    PackedTask,
    draw_ids,
    packed_messages,
    packed_schema,
    split_answer,
)
from backend.telemetry import metrics

MOST_TOKENS: Final = 16_000
"""Input tokens from which a prompt is full, however few tasks it holds."""

_log = structlog.get_logger(__name__)


class Packable(Protocol):
    """A task that can be put into a prompt with others."""

    @property
    def key(self) -> str:
        """The key of the answer about it."""
        ...

    @property
    def task(self) -> PackedTask:
        """The task as it stands in the prompt."""
        ...


_P = TypeVar("_P", bound=Packable)


@dataclass(frozen=True, slots=True, eq=False)
class Pack(Generic[_P]):
    """Tasks that share a prompt.

    Attributes:
        members: id → task, in the order in which they are shown.
    """

    members: Mapping[str, _P]

    @classmethod
    def drawn(cls, members: Sequence[_P], rng: random.Random) -> Pack[_P] | None:
        """Some tasks in random order, under random ids; ``None`` if there is none to ask about.

        A text with lines of the prompt's own kind for nearly every id leaves no ids.
        """
        ids = draw_ids([member.task for member in members], rng) if members else None
        if ids is None:
            return None
        return cls(dict(zip(ids, rng.sample(members, len(members)), strict=True)))

    @property
    def tasks(self) -> dict[str, PackedTask]:
        """The tasks as they stand in the prompt, by id."""
        return {number: member.task for number, member in self.members.items()}

    @property
    def messages(self) -> Messages:
        """The prompt."""
        return packed_messages(self.tasks)

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema of its answer."""
        return packed_schema(self.tasks)

    def only(self, keys: Sequence[str]) -> Pack[_P]:
        """The members with these keys."""
        wanted = frozenset(keys)
        return Pack({number: member for number, member in self.members.items() if member.key in wanted})

    @property
    def shares(self) -> dict[str, float]:
        """Key → the member's share of the cost: an equal part of what is shared, and its own texts."""
        first = next(iter(self.members.values()))
        shared = count_tokens((first.task.system,)) / len(self.members)
        weights = {member.key: shared + own_tokens(member.task) for member in self.members.values()}
        total = sum(weights.values())
        return {key: weight / total for key, weight in weights.items()}

    def split(self, content: str) -> dict[str, str]:
        """Key → the answer about that task alone; empty if it is missing or unreadable."""
        parts = split_answer(content, self.tasks)
        return {member.key: parts.get(number, "") for number, member in self.members.items()}


def own_tokens(task: PackedTask) -> int:
    """The tokens of a task's own texts, by our count."""
    return count_text(task.fenced(TYPICAL_ID))


def pack_key(pool: Pool, arm: str, task: PackedTask) -> str:
    """Return the key of a packed answer: of the arm, the template and the task's own text.

    Args:
        pool: the models.
        arm: the name of the packed arm, which says how many tasks a prompt may hold.
        task: the task as it stands in a prompt.
    """
    alone = {TYPICAL_ID: task}
    fingerprint = pool.fingerprint(arm, packed_messages(alone), packed_schema(alone))
    identity = f"pack {PACK_VERSION} {arm.rpartition(':')[2]} {fingerprint}"
    return hashlib.sha256(identity.encode()).hexdigest()[:KEY_LENGTH]


def count_parts(arm: str, contents: Mapping[str, str]) -> None:
    """Count the tasks that an answer says something about, and those that are missing in it.

    Args:
        arm: the packed arm.
        contents: key → the answer about one task; empty if it is missing or unreadable.
    """
    missing = sum(not content for content in contents.values())
    metrics.packed_tasks.labels(model=arm, outcome="answered").inc(len(contents) - missing)
    metrics.packed_tasks.labels(model=arm, outcome="missing").inc(missing)
    if missing:
        _log.info("missing_in_pack", model=arm, tasks=len(contents), missing=missing)
