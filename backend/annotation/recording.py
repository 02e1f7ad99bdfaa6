"""The transactions that store how a task ended: its rounds and what they teach, or its failure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from backend.annotation.job import Job, JobQuestion
from backend.annotation.task_outcome import TaskOutcome
from backend.errors import TaskDeletedError, TaskError
from backend.learning.human_labels import confirmation, human_label, teacher
from backend.learning.teaching import store_round
from backend.ledger import deleted_tasks, failed_tasks, projects, rounds
from backend.ledger.batches import tasks as batch_tasks
from backend.ledger.calls import pack_checks
from backend.ledger.rounds import Round


def record_rounds(
    connection: Connection, job: Job, questions: Sequence[JobQuestion], outcome: TaskOutcome, now: float
) -> tuple[list[Round], list[Round]]:
    """Store the rounds of the decided questions and what they teach.

    A round that another process has stored meanwhile, or this one before its connection broke, stays as it
    is. So a repetition stores nothing and teaches nothing.

    Args:
        connection: a write transaction.
        job: the task.
        questions: the questions that models were asked about.
        outcome: the votes and decisions.
        now: unix seconds.

    Returns:
        The rounds that were stored already, and the new ones.

    Raises:
        TaskDeletedError: the task was deleted meanwhile; nothing is stored.
    """
    if deleted_tasks.is_deleted(connection, job.project, job.task):
        raise TaskDeletedError("the task was deleted meanwhile", where=f"task {job.task}")
    stored = rounds.find_by_key(connection, [question.key for question in questions])
    new = [
        _record_round(connection, job, question, outcome, questions=len(questions), now=now)
        for question in questions
        if question.key not in stored and question.name in outcome.decisions
    ]
    batch_tasks.forget(connection, job.project, job.task)
    return list(stored.values()), new


def record_failure(connection: Connection, job: Job, error: TaskError, now: float) -> None:
    """Record that the task ended without a prediction, unless it was deleted meanwhile."""
    if not deleted_tasks.is_deleted(connection, job.project, job.task):
        projects.ensure(connection, job.project, now)
        failed_tasks.record(connection, job.project, job.task, error.code, now)


def forget_failure(connection: Connection, job: Job) -> None:
    """Forget that the task failed, because it has a prediction now."""
    failed_tasks.forget_task(connection, job.project, job.task)


def _record_round(
    connection: Connection,
    job: Job,
    question: JobQuestion,
    outcome: TaskOutcome,
    *,
    questions: int,
    now: float,
) -> Round:
    """Store one round and what it teaches. The task's cost is shared equally among its questions."""
    decision = outcome.decisions[question.name]
    plan = outcome.describe(question.name)
    human = human_label(connection, question.key, plan)
    label, taught_by = teacher(decision.label, human, job.settings, blind=job.audit)
    round_ = Round(
        key=question.key,
        plan=plan,
        votes={arm: answers.get(question.name) for arm, answers in outcome.votes.items()},
        label=decision.label,
        score=outcome.scores.get(question.name, decision.score),
        cost_usd=outcome.cost / questions,
        full_cost_usd=outcome.full_cost / questions,
        audit=job.audit,
        taught=label,
        taught_by=taught_by,
        context=outcome.plan.estimates[question.name].context,
        created_at=now,
        human=human,
        confirmed=confirmation(decision.label, human, plan),
    )
    lesson = outcome.policy.contribution(
        outcome.plan,
        question.name,
        outcome.votes,
        label,
        human=taught_by == "human",
        confidences=outcome.confidences,
    )
    for arm, agreed in outcome.packs.get(question.name, {}).items():
        pack_checks.record(connection, question.key, arm, agreed=agreed, now=now)
    studied = outcome.studied.get(question.name)
    taught = None if studied is None else studied.lesson(label if taught_by == "human" else None)
    contribution = replace(lesson, versions=outcome.versions, taught=taught)
    store_round(connection, round_, contribution, now=now, examples=outcome.shown)
    return round_
