"""Jobs, their questions, and what models are sent about them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from backend.ledger.events import StateKey
from backend.ledger.money import Purse
from backend.ledger.rounds import RoundKey
from backend.models.embedder import Embedder
from backend.questions import LabelConfig, TaskQuestion
from backend.questions.prompts.messages import Messages
from backend.questions.prompts.packs import PackedTask
from backend.settings import Settings
from camvo.numerics.small import unknown_context, with_category
from camvo.typing import Array


@dataclass(frozen=True, slots=True)
class Batching:
    """How a job uses providers' batches.

    Attributes:
        models: the models that are asked in batches; the others are asked at once.
        stages: the most rounds of batches.
    """

    models: frozenset[str]
    stages: int


@dataclass(frozen=True, slots=True)
class Job:
    """One task to annotate.

    Attributes:
        project: the project's key.
        task: Label Studio's task id.
        data: the task's data.
        config: the parsed label config.
        settings: the project's settings.
        again: whether models make another attempt after their last one.
        stored_only: whether the prediction is made of stored rounds alone, so that no model is asked.
        batching: which models are asked in providers' batches; ``None`` to ask all of them at once.
        purse: an account inside the project's that pays for the calls; ``None`` for none.
        aim_usd: what plans keep the purse to as far as they can, in $; ``None`` for none.
        everyone: whether every model is asked, as in a pilot.
        below: a task with labels of earlier instructions keeps them unless a score is lower; 1 for none.
        review: whether people may review the task, for which its text is embedded in any case. Otherwise it
            is embedded only if the plan, or what is learnt from the round, reads its context.
        hurried: whether its calls end at the deadline of the settings, because somebody waits for the task.
        waits: whether outages of models are waited for, unless the job is in a hurry.
        file: the path of the file that has the task; ``None`` for a task of Label Studio.
        questions: its questions under this label config, if somebody has made them already.
    """

    project: str
    task: int
    data: Mapping[str, Any]
    config: LabelConfig
    settings: Settings
    again: bool = False
    stored_only: bool = False
    batching: Batching | None = None
    purse: Purse | None = None
    aim_usd: float | None = None
    everyone: bool = False
    below: float = 1.0
    review: bool = True
    hurried: bool = False
    waits: bool = True
    file: str | None = None
    questions: Sequence[JobQuestion] = ()

    @property
    def outage_patience(self) -> float | None:
        """Seconds of an outage that its calls wait; ``None`` if they wait for none."""
        return self.patience if self.waits and not self.hurried else None

    @property
    def patience(self) -> float:
        """Seconds that each of its calls may wait before it is sent; in a hurry, for everything."""
        return self.settings.deadline if self.hurried else 3600.0 * self.settings.patience_hours

    @property
    def audit(self) -> bool:
        """Whether chance keeps the task blind, unless a prediction of it was handed out before."""
        return is_audit(self.project, self.task, self.settings.audit)


@dataclass(frozen=True, slots=True)
class JobQuestion(TaskQuestion):
    """A question of a job, and the key of its round."""

    key: RoundKey = field(kw_only=True)

    @property
    def state_key(self) -> StateKey:
        """The key of what is learnt about the question."""
        return StateKey(self.key.project, self.key.control, self.key.epoch)


def is_audit(project: str, task: int, share: float) -> bool:
    """Whether a task is kept blind for an audit; decided by a hash, so that all processes agree.

    Args:
        project: the project's key.
        task: the task's id.
        share: the share of tasks to audit, in [0, 1].
    """
    return share > 0.0 and random_draw("audit", project, task) < share * 2**64


def random_draw(purpose: str, project: str, task: int) -> int:
    """A draw in [0, 2⁶⁴), the same in every process: the tasks with the smallest are a random sample."""
    digest = hashlib.sha256(f"{purpose}:{project}:{task}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


class Contexts(Protocol):
    """The contexts of a task's questions."""

    def so_far(self, question: JobQuestion) -> Array:
        """The context, shape (d,); unknown unless somebody has asked for it."""
        ...

    async def of(self, question: JobQuestion) -> Array:
        """The context, shape (d,)."""
        ...


class EmbeddedContexts:
    """The contexts of a task that has no round yet. Used from one event loop only."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, Array] = {}

    def so_far(self, question: JobQuestion) -> Array:
        """The context, shape (d,); unknown unless somebody has asked for it."""
        known = self._known.get(question.name)
        return unknown_context(self._embedder.dimension) if known is None else known

    async def of(self, question: JobQuestion, *, soon: bool = True) -> Array:
        """The context: the embedded text, and the category if the question has one.

        It is rounded to 16 bits before anything reads it, so that the ledger holds exactly the numbers that
        the plan used, in half the space; cosines change by less than 0.001. Unless somebody waits for the
        task (``soon``), its text shares a batch with others.
        """
        if question.name not in self._known:
            vector = await self._embedder.vector(question.context, soon=soon)
            short = vector.astype(np.float16).astype(np.float64)
            self._known[question.name] = with_category(short, question.category)
        return self._known[question.name]


@dataclass(frozen=True, slots=True)
class TaskPrompt:
    """The prompt about a task, with and without examples.

    Attributes:
        questions: the questions that answers are parsed for.
        messages: the prompt without examples.
        schema: the JSON schema of an answer.
        examples: the prompt with examples, if there are any.
        tasks: the tasks shown as examples.
        shown: how many examples each model gets; empty if there are none.
        pack: the task for a prompt with others; ``None`` if it is to be asked about alone.
        alone: whether somebody may be waiting for this one task, so that it waits for no others.
    """

    questions: Sequence[JobQuestion]
    messages: Messages
    schema: Mapping[str, Any]
    examples: Messages = ()
    tasks: Sequence[int] = ()
    shown: Mapping[str, int] = field(default_factory=dict)
    pack: PackedTask | None = None
    alone: bool = False

    def for_model(self, arm: str) -> Messages:
        """The messages for one model."""
        return self.examples if self.shown.get(arm) else self.messages
