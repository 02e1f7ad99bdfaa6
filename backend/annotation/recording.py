"""The end of one task's way: its rounds and what they teach, stored in one transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from backend.errors import TaskDeletedError
from backend.learning import feedback
from backend.ledger import deleted_tasks, rounds
from backend.ledger.rounds import Round, RoundKey
from backend.questions import LabelConfig, TaskQuestion
from backend.settings import Settings
from camvo.policies.plan import Plan
from camvo.policies.policy import Policy
from camvo.votes import registry
from camvo.votes.decision import Decision


@dataclass(frozen=True, slots=True)
class Job:
    """One task to annotate: Label Studio's task id and data, the parsed config, the project's settings."""

    project: str
    task: int
    data: Mapping[str, Any]
    config: LabelConfig
    settings: Settings

    @property
    def audit(self) -> bool:
        """Whether the task is kept blind, so that people label it without seeing the prediction."""
        return is_audit(self.project, self.task, self.settings.audit)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question of a job, and the key of its round."""

    question: TaskQuestion
    key: RoundKey

    @property
    def name(self) -> str:
        """The control's name."""
        return self.question.name


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a task was decided; ``costs`` says what each arm that was asked cost, in $.

    ``scores`` holds each question's score as it is shown, where the policy's own was calibrated. Where there
    were examples, ``examples`` says of which tasks, and ``shown`` how many each arm had.
    """

    policy: Policy
    plan: Plan
    votes: Mapping[str, Mapping[str, str]]
    decisions: Mapping[str, Decision]
    costs: Mapping[str, float]
    scores: Mapping[str, float]
    examples: Sequence[int] = ()
    shown: Mapping[str, int] = field(default_factory=dict)

    @property
    def cost(self) -> float:
        """What was paid, in $."""
        return sum(self.costs.values())

    @property
    def full_cost(self) -> float:
        """What asking every model would have cost, in $: the expected price of those that were spared."""
        expected = dict(zip(self.plan.arms, map(float, self.plan.costs), strict=True))
        return sum((expected | dict(self.costs)).values())

    def describe(self, question: str) -> dict[str, Any]:
        """What a round keeps of the plan, of how its votes are counted, and the policy's own score."""
        aggregation = self.plan.estimates[question].aggregation
        own = {
            "aggregation": registry.describe_aggregation(aggregation),
            "score": self.decisions[question].score,
        }
        if self.examples:
            own["examples"] = list(self.examples)
        return self.plan.describe(question) | own


def record(
    connection: Connection, job: Job, asked: Sequence[Asked], verdict: Verdict, now: float
) -> tuple[list[Round], list[Round]]:
    """Store the rounds and what they teach, in one transaction; one that another process stored wins.

    Returns:
        The rounds that were there already, and the new ones.

    Raises:
        TaskDeletedError: the task was deleted meanwhile; nothing of it is stored.
    """
    if deleted_tasks.is_deleted(connection, job.project, job.task):
        raise TaskDeletedError("the task was deleted meanwhile", where=f"task {job.task}")
    there = rounds.find_by_key(connection, [one.key for one in asked])
    new: list[Round] = []
    for one in asked:
        if one.key in there or one.name not in verdict.decisions:
            continue
        voted = verdict.decisions[one.name]
        plan = verdict.describe(one.name)
        human = feedback.human_label(connection, one.key, plan)
        label, taught_by = feedback.teacher(voted.label, human, job.settings)
        round_ = Round(
            key=one.key,
            plan=plan,
            votes={arm: answers.get(one.name) for arm, answers in verdict.votes.items()},
            label=voted.label,
            score=verdict.scores.get(one.name, voted.score),
            cost_usd=verdict.cost / len(asked),
            full_cost_usd=verdict.full_cost / len(asked),
            audit=job.audit,
            taught=label,
            taught_by=taught_by,
            context=verdict.plan.estimates[one.name].context,
            created_at=now,
            human=human,
            confirmed=feedback.confirmation(voted.label, human, plan),
        )
        contribution = verdict.policy.contribution(
            verdict.plan, one.name, verdict.votes, label, human=taught_by == "human"
        )
        feedback.teach(connection, round_, contribution, now=now, examples=verdict.shown)
        new.append(round_)
    return list(there.values()), new


def is_audit(project: str, task: int, share: float) -> bool:
    """Whether a task is annotated blind, decided by a hash so that every process decides alike."""
    digest = hashlib.sha256(f"audit:{project}:{task}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64
