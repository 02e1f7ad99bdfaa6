"""Jobs and their questions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from backend.ledger.money import Purse
from backend.ledger.rounds import RoundKey
from backend.questions import LabelConfig, TaskQuestion
from backend.settings import Settings


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
        review: whether people may review the task, for which its text is embedded in any case. Otherwise it
            is embedded only if the plan, or what is learnt from the round, reads its context.
        hurried: whether its calls end at the deadline of the settings, because somebody waits for the task.
        waits: whether outages of models are waited for, unless the job is in a hurry.
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
    review: bool = True
    hurried: bool = False
    waits: bool = True

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

    @classmethod
    def of(cls, question: TaskQuestion, key: RoundKey) -> JobQuestion:
        """The question with its key."""
        return cls(question.config, question.content, question.options, question.category, key=key)


def is_audit(project: str, task: int, share: float) -> bool:
    """Whether a task is kept blind for an audit; decided by a hash, so that all processes agree.

    Args:
        project: the project's key.
        task: the task's id.
        share: the share of tasks to audit, in [0, 1].
    """
    return audit_draw(project, task) < share * 2**64


def audit_draw(project: str, task: int) -> int:
    """The draw in [0, 2⁶⁴) that decides whether a task is kept blind: the smallest ones are."""
    return random_draw("audit", project, task)


def random_draw(purpose: str, project: str, task: int) -> int:
    """A draw in [0, 2⁶⁴), the same in every process: the tasks with the smallest are a random sample."""
    digest = hashlib.sha256(f"{purpose}:{project}:{task}".encode()).digest()
    return int.from_bytes(digest[:8], "big")
