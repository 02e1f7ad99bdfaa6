"""The transactions that store how a task ended: its rounds and what they teach, or its failure."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from backend.annotation.job import Job, JobQuestion
from backend.annotation.task_outcome import TaskOutcome
from backend.errors import TaskDeletedError, TaskError
from backend.learning.human_labels import confirmation, human_label, teacher
from backend.learning.teaching import NewRound, store_rounds
from backend.ledger import deleted_tasks, failed_tasks, human_annotations, projects, rounds
from backend.ledger.batches import tasks as batch_tasks
from backend.ledger.calls import pack_checks
from backend.ledger.human_annotations import Annotation
from backend.ledger.rounds import Round, RoundKey


@dataclass(frozen=True, slots=True, eq=False)
class Finished:
    """A task that models have voted on.

    Attributes:
        job: the task.
        questions: the questions that models were asked about.
        outcome: the votes and decisions.
        now: unix seconds.
    """

    job: Job
    questions: Sequence[JobQuestion]
    outcome: TaskOutcome
    now: float

    @property
    def task(self) -> tuple[str, int]:
        """The task's project and number."""
        return self.job.project, self.job.task


def record_rounds(
    connection: Connection, finished: Sequence[Finished]
) -> list[tuple[list[Round], list[Round]]]:
    """Store the rounds of the decided questions of different tasks, and what they teach.

    A round that another process has stored meanwhile, or this one before its connection broke, stays as it
    is. So a repetition stores nothing and teaches nothing.

    Args:
        connection: a write transaction.
        finished: the tasks, at least one.

    Returns:
        For each task the rounds that were stored already, and the new ones.

    Raises:
        TaskDeletedError: a task was deleted meanwhile; nothing is stored.
        LedgerError: a question of a task was decided twice; nothing is stored.
    """
    tasks = [each.task for each in finished]
    for _, task in sorted(deleted_tasks.deleted_among(connection, tasks)):
        raise TaskDeletedError("the task was deleted meanwhile", where=f"task {task}")
    keys = [question.key for each in finished for question in each.questions]
    stored = rounds.find_by_key(connection, keys)
    people = human_annotations.of_tasks(connection, tasks)
    new = [_new_rounds(connection, each, stored.keys(), people[each.task]) for each in finished]
    store_rounds(connection, [round_ for of_task in new for round_ in of_task], finished[0].now)
    batch_tasks.forget(connection, tasks)
    return [
        (
            [stored[question.key] for question in each.questions if question.key in stored],
            [added.round for added in of_task],
        )
        for each, of_task in zip(finished, new, strict=True)
    ]


def _new_rounds(
    connection: Connection, finished: Finished, stored: Set[RoundKey], people: Sequence[Annotation]
) -> list[NewRound]:
    return [
        _finished_round(connection, finished, question, people)
        for question in finished.questions
        if question.key not in stored and question.name in finished.outcome.decisions
    ]


def record_failure(connection: Connection, job: Job, error: TaskError, now: float) -> None:
    """Record that the task ended without a prediction, unless it was deleted meanwhile."""
    if not deleted_tasks.is_deleted(connection, job.project, job.task):
        projects.ensure(connection, job.project, now)
        failed_tasks.record(connection, job.project, job.task, error.code, now)


def forget_failure(connection: Connection, job: Job) -> None:
    """Forget that the task failed, because it has a prediction now."""
    failed_tasks.forget_task(connection, job.project, job.task)


def _finished_round(
    connection: Connection, finished: Finished, question: JobQuestion, people: Sequence[Annotation]
) -> NewRound:
    """One round and what it teaches. The task's cost is shared equally among its questions."""
    job, outcome, now = finished.job, finished.outcome, finished.now
    decision, questions = outcome.decisions[question.name], len(finished.questions)
    plan = outcome.describe(question.name)
    human = human_label(connection, question.key, plan, people)
    label, taught_by = teacher(decision.label, human, job.settings, blind=job.audit)
    studied = outcome.studied.get(question.name)
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
        text=b"" if studied is None else studied.ngrams,
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
    taught = None if studied is None else studied.lesson(label if taught_by == "human" else None)
    contribution = replace(lesson, versions=outcome.versions, taught=taught)
    return NewRound(round_, contribution, outcome.shown)
