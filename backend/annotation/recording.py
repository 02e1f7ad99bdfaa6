"""A finished task in the ledger: looked up before models are asked, recorded after they have voted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from backend.annotation.job import Job, JobQuestion
from backend.annotation.pack_checks import compared
from backend.annotation.replies import Replies
from backend.annotation.task_prompt import TaskPrompt
from backend.errors import TaskDeletedError, TaskError
from backend.learning.teaching import NewRound, confirmation, human_label, store_rounds, teacher
from backend.ledger import answers as pack_checks
from backend.ledger import human_annotations, projects, recounts, rounds
from backend.ledger.batches import WaitingTasks
from backend.ledger.human_annotations import Annotation
from backend.ledger.projects import FailedTasks
from backend.ledger.rounds import Round, RoundKey
from backend.ledger.schemes import asked_before_labels_changed
from backend.telemetry import metrics
from camvo.policies.joint import Joint
from camvo.policies.policy import Plan, Policy
from camvo.stages.stages import on_question
from camvo.student import STUDENT, StudiedText
from camvo.twins import once_each
from camvo.votes import registry
from camvo.votes.aggregation import Decision


@dataclass(frozen=True, slots=True)
class LookUp:
    """A task to look up.

    Attributes:
        project: the project's key.
        task: the task's number.
        keys: the keys of the rounds of its questions.
        audit: whether chance keeps it blind.
    """

    project: str
    task: int
    keys: Sequence[RoundKey]
    audit: bool


@dataclass(frozen=True, slots=True)
class Known:
    """What the ledger knows of a task.

    Attributes:
        rounds: the stored rounds of its questions, by their latest counting.
        failed: whether it failed the last time.
        blind: whether it is kept blind: chance chose it, and no prediction of it was ever handed out.
    """

    rounds: dict[RoundKey, Round]
    failed: bool
    blind: bool


def look_up(connection: Connection, wanted: Sequence[LookUp]) -> list[Known]:
    """Return what the ledger knows of each task.

    Args:
        connection: a read transaction.
        wanted: the tasks.
    """
    found = rounds.find_by_key(connection, [key for each in wanted for key in each.keys])
    stored = recounts.with_latest(connection, found)
    failed = projects.failed_among(connection, [(each.project, each.task) for each in wanted])
    shown = rounds.shown_among(connection, [(each.project, each.task) for each in wanted if each.audit])
    return [
        Known(
            {key: stored[key] for key in each.keys if key in stored},
            failed=(each.project, each.task) in failed,
            blind=each.audit and (each.project, each.task) not in shown,
        )
        for each in wanted
    ]


@dataclass(frozen=True, slots=True, eq=False)
class FinishedTask:
    """A task that models have voted on: the votes, and how they were decided.

    Attributes:
        job: the task.
        questions: the questions that models were asked about.
        prompt: what the models were shown.
        policy: the policy that planned and decided.
        plan: its plan.
        replies: what the models replied.
        decisions: by question, for the questions that got a vote.
        scores: the calibrated score by question, for questions whose policy score was calibrated.
        studied: question → its text, which teaches the student.
        planned_at: when it was decided whom to ask, unix seconds.
        now: unix seconds.
        blind: whether the task is kept blind.
    """

    job: Job
    questions: Sequence[JobQuestion]
    prompt: TaskPrompt
    policy: Policy
    plan: Plan
    replies: Replies
    decisions: Mapping[str, Decision]
    scores: Mapping[str, float]
    studied: Mapping[str, StudiedText]
    planned_at: float
    now: float
    blind: bool

    @property
    def task(self) -> tuple[str, int]:
        """The task's project and number."""
        return self.job.project, self.job.task

    @property
    def cost(self) -> float:
        """What was paid, in $."""
        return sum(self.replies.costs.values())

    @property
    def shown(self) -> dict[str, int]:
        """How many examples the prompt of each model had."""
        return {arm: count for arm, count in self.prompt.shown.items() if arm in self.replies.arms}

    @property
    def packs(self) -> dict[str, dict[str, bool]]:
        """Question → packed arm → whether its vote was that of its model, asked singly; of those compared."""
        return compared(self.job, self.plan, {**self.replies.beside, **self.replies.arms})

    @property
    def full_cost(self) -> float:
        """The cost of asking every model once, in $, each by its cheaper arm.

        For arms whose reply cost nothing, since they failed or were not asked, it is their expected price.
        """
        return sum(self._once_each.values())

    @property
    def bounded_cost(self) -> float:
        """The part of :attr:`full_cost` of which only an upper bound is known, in $."""
        paid, bounded = self.replies.costs, self.replies.bounded
        return sum(cost for arm, cost in self._once_each.items() if arm in bounded and not paid.get(arm))

    @property
    def _once_each(self) -> dict[str, float]:
        expected = {arm: model.usd for arm, model in self.replies.left_out.items()}
        expected |= zip(self.plan.arms, map(float, self.plan.costs), strict=True)
        paid = {arm: cost for arm, cost in self.replies.costs.items() if cost > 0.0}
        return once_each(expected | paid)

    def describe(self, question: str) -> dict[str, Any]:
        """The JSON that a round stores: the plan, the aggregation and the policy's own score.

        The trust in that score, the scores of labels with a recall, the confidences, the label for the
        student's text and the examples are in it if there are any.
        """
        aggregation, decision = self.plan.estimates[question].aggregation, self.decisions[question]
        description: dict[str, Any] = {
            "aggregation": registry.describe_aggregation(aggregation),
            "score": decision.score,
        }
        if decision.trust:
            description["trust"] = decision.trust
        if isinstance(self.policy, Joint) and (likely := self.policy.likely(decision.posterior)):
            description["likely"] = likely
        if sure := on_question(self.replies.confidences, question):
            description["confidences"] = sure
        if versions := self.replies.versions:
            description["versions"] = versions
        if question in self.studied:
            description["studied"] = self.studied[question].to_list()
        if self.prompt.tasks:
            description["examples"] = list(self.prompt.tasks)
        return self.plan.describe(question) | description


def record_rounds(
    connection: Connection, finished: Sequence[FinishedTask]
) -> list[tuple[list[Round], list[Round]]]:
    """Store the rounds of the decided questions of different tasks, and what they teach.

    A round that is stored already, by another process or by this one before its connection broke, is
    unchanged. So a repetition stores nothing and teaches nothing.

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
    for _, task in sorted(projects.deleted_among(connection, tasks)):
        raise TaskDeletedError("the task was deleted meanwhile", where=f"task {task}")
    keys = [question.key for each in finished for question in each.questions]
    stored = rounds.find_by_key(connection, keys)
    people = human_annotations.of_tasks(connection, tasks)
    chosen = _chosen(connection, [key for key in keys if key not in stored])
    new = [_new_rounds(connection, each, stored.keys(), people[each.task], chosen) for each in finished]
    store_rounds(connection, [round_ for of_task in new for round_ in of_task], finished[0].now)
    WaitingTasks(connection).forget(tasks)
    return [
        (
            [stored[question.key] for question in each.questions if question.key in stored],
            [added.round for added in of_task],
        )
        for each, of_task in zip(finished, new, strict=True)
    ]


def _chosen(connection: Connection, keys: Sequence[RoundKey]) -> set[RoundKey]:
    """The rounds of tasks that are asked about again because labels have changed."""
    found = set[RoundKey]()
    for project in sorted({key.project for key in keys}):
        mine = [key for key in keys if key.project == project]
        controls, tasks = {key.control for key in mine}, sorted({key.task for key in mine})
        again = asked_before_labels_changed(connection, project, controls, tasks)
        found |= {key for key in mine if (key.task, key.control) in again}
    return found


def _new_rounds(
    connection: Connection,
    finished: FinishedTask,
    stored: Set[RoundKey],
    people: Sequence[Annotation],
    chosen: Set[RoundKey],
) -> list[NewRound]:
    packs = finished.packs
    new = [
        _finished_round(connection, finished, question, people, packs.get(question.name, {}))
        for question in finished.questions
        if question.key not in stored and question.name in finished.decisions
    ]
    return [_of_chosen(each) if each.round.key in chosen else each for each in new]


def _of_chosen(new: NewRound) -> NewRound:
    """The round of a task that was not drawn at random, so that it says nothing of a change."""
    explored = new.contribution.exploration
    if explored is None:
        return new
    marked = replace(explored, chosen=True)
    return replace(new, contribution=replace(new.contribution, exploration=marked))


def count_rounds(new: Sequence[Round]) -> None:
    """Count new rounds, and the models that they asked, in the metrics."""
    for round_ in new:
        labels = {"project": round_.key.project, "control": metrics.label_value(round_.key.control)}
        metrics.rounds.labels(**labels).inc()
        metrics.models_asked.labels(**labels).inc(len(round_.votes.keys() - {STUDENT}))


def record_failure(connection: Connection, job: Job, error: TaskError, now: float) -> None:
    """Record that the task ended without a prediction, unless it was deleted meanwhile."""
    if not projects.is_deleted(connection, job.project, job.task):
        projects.ensure(connection, job.project, now)
        FailedTasks(connection, job.project).record(job.task, error.code, now)


def forget_failure(connection: Connection, job: Job) -> None:
    """Forget that the task failed, because it has a prediction now."""
    FailedTasks(connection, job.project).forget(job.task)


def _finished_round(
    connection: Connection,
    finished: FinishedTask,
    question: JobQuestion,
    people: Sequence[Annotation],
    packs: Mapping[str, bool],
) -> NewRound:
    """One round and what it teaches. The task's cost is shared equally among its decided questions."""
    votes, confidences = finished.replies.votes, finished.replies.confidences
    job, decision, questions = finished.job, finished.decisions[question.name], len(finished.decisions)
    plan = finished.describe(question.name)
    human = human_label(connection, question.key, plan, people)
    label, taught_by = teacher(decision.label, human, job.settings, blind=finished.blind)
    studied = finished.studied.get(question.name)
    round_ = Round(
        key=question.key,
        plan=plan,
        votes={arm: answers.get(question.name) for arm, answers in votes.items()},
        label=decision.label,
        score=finished.scores.get(question.name, decision.score),
        cost_usd=finished.cost / questions,
        full_cost_usd=finished.full_cost / questions,
        bounded_usd=finished.bounded_cost / questions,
        audit=finished.blind,
        taught=label,
        taught_by=taught_by,
        context=finished.plan.estimates[question.name].context,
        created_at=finished.now,
        planned_at=finished.planned_at,
        text=b"" if studied is None else studied.ngrams,
        human=human,
        confirmed=confirmation(decision.label, human, plan),
        missing=finished.replies.missing(finished.plan.arms) or None,
    )
    lesson = finished.policy.contribution(
        finished.plan,
        question.name,
        votes,
        label,
        human=taught_by == "human",
        confidences=confidences,
    )
    for arm, agreed in packs.items():
        pack_checks.record_pack_checks(connection, question.key, arm, agreed=agreed, now=finished.now)
    taught = None if studied is None else studied.lesson(label if taught_by == "human" else None)
    contribution = replace(lesson, versions=finished.replies.versions, taught=taught)
    failures = finished.replies.failures(question.name)
    return NewRound(round_, contribution, finished.shown, failures, audited=job.settings.audit > 0.0)
