"""One task's way from a job to a prediction: embed, plan, ask, decide, record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial

import structlog
from sqlalchemy import Connection

from backend.annotation.asking import (
    ModelReply,
    PackGuard,
    Voters,
    ask_models,
    compared,
    confidences_of,
    no_vote_error,
    offered,
    votes_of,
)
from backend.annotation.batch_stage import BatchStage, BatchStages, pending
from backend.annotation.job import Job, JobQuestion, TaskOutcome
from backend.annotation.job_questions import JobQuestions, skip_questions
from backend.annotation.planner import Allowances, Planner
from backend.annotation.task_prompt import EmbeddedContexts, TaskPrompt, write_prompt
from backend.errors import BatchPendingError, LedgerError, TaskDeletedError, TaskError
from backend.label_studio.predictions import Prediction, model_predictions, prediction_of
from backend.learning.examples import Examples
from backend.learning.fits import Scorers
from backend.learning.states import StateKey
from backend.learning.teaching import NewRound, confirmation, human_label, store_rounds, teacher
from backend.ledger import Ledger, Writer, batches, deletions, human_annotations, projects, recounts, rounds
from backend.ledger import answers as pack_checks
from backend.ledger.database.writer import GroupedReads, GroupedWrite
from backend.ledger.human_annotations import Annotation
from backend.ledger.rounds import Round, RoundKey
from backend.models.embedder import Embedder
from backend.settings.policies import policy_of
from backend.telemetry import metrics, tracing
from camvo.numerics.small import is_known
from camvo.policies.policy import Conditions, Plan, Policy
from camvo.student.taught_texts import STUDENT
from camvo.votes.aggregation import Decision
from camvo.votes.labels import LABEL_VOTE


async def calibrated_scores(  # noqa: PLR0917 - one task, and what was planned, voted and decided
    scorers: Scorers,
    job: Job,
    questions: Sequence[JobQuestion],
    plan: Plan,
    votes: Mapping[str, Mapping[str, str]],
    decisions: Mapping[str, Decision],
) -> dict[str, float]:
    """The calibrated score of each decided question whose votes are single labels, by question.

    Empty if ``calibrate`` is off. The scores are stored with the rounds: they are computed before any human
    sees the prediction, and later fits do not change them.
    """
    scores: dict[str, float] = {}
    if not job.settings.calibrate:
        return scores
    for question in questions:
        name, estimates = question.name, plan.estimates[question.name]
        if name not in decisions or estimates.aggregation != LABEL_VOTE:
            continue
        key = StateKey(job.project, question.key.control, question.key.epoch)
        votes_cast = {arm: votes[arm][name] for arm in plan.arms if name in votes.get(arm, {})}
        if decisions[name].label not in votes_cast.values():
            continue
        scorer = await scorers.current(key, plan.arms, estimates.labels)
        scores[name] = scorer.score_decision(votes_cast, decisions[name])
    return scores


@dataclass(frozen=True, slots=True)
class LookUp:
    """A task to look up.

    Attributes:
        project: the project's key.
        task: the task's number.
        keys: the keys of the rounds of its questions.
    """

    project: str
    task: int
    keys: Sequence[RoundKey]


def look_up(connection: Connection, wanted: Sequence[LookUp]) -> list[tuple[dict[RoundKey, Round], bool]]:
    """Return for each task the stored rounds by their latest counting, and whether it failed the last time.

    Args:
        connection: a read transaction.
        wanted: the tasks.
    """
    found = rounds.find_by_key(connection, [key for each in wanted for key in each.keys])
    stored = recounts.with_latest(connection, found)
    failed = projects.failed_among(connection, [(each.project, each.task) for each in wanted])
    return [
        ({key: stored[key] for key in each.keys if key in stored}, (each.project, each.task) in failed)
        for each in wanted
    ]


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
    for _, task in sorted(deletions.deleted_among(connection, tasks)):
        raise TaskDeletedError("the task was deleted meanwhile", where=f"task {task}")
    keys = [question.key for each in finished for question in each.questions]
    stored = rounds.find_by_key(connection, keys)
    people = human_annotations.of_tasks(connection, tasks)
    new = [_new_rounds(connection, each, stored.keys(), people[each.task]) for each in finished]
    store_rounds(connection, [round_ for of_task in new for round_ in of_task], finished[0].now)
    batches.forget_task(connection, tasks)
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
    if not deletions.is_deleted(connection, job.project, job.task):
        projects.ensure(connection, job.project, now)
        projects.record_failures(connection, job.project, job.task, error.code, now)


def forget_failure(connection: Connection, job: Job) -> None:
    """Forget that the task failed, because it has a prediction now."""
    projects.forget_failures_of(connection, job.project, job.task)


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
        pack_checks.record_pack_checks(connection, question.key, arm, agreed=agreed, now=now)
    taught = None if studied is None else studied.lesson(label if taught_by == "human" else None)
    contribution = replace(lesson, versions=outcome.versions, taught=taught)
    return NewRound(round_, contribution, outcome.shown)


_log = structlog.get_logger(__name__)


class Annotator:
    """Turns jobs into predictions. Used from one event loop only."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        writer: Writer,
        readers: Executor,
        embedder: Embedder,
        questions: JobQuestions,
        examples: Examples,
        planner: Planner,
        voters: Voters,
        batch_stages: BatchStages,
        scorers: Scorers,
        clock: Callable[[], float],
    ) -> None:
        self._writer, self._readers = writer, readers
        self._stored = GroupedReads(ledger, readers, look_up)
        self._embedder, self._questions, self._examples = embedder, questions, examples
        self._pack_guard = PackGuard(ledger, readers)
        self._batch_stages = batch_stages
        self._allowances = Allowances(ledger, readers, clock)
        self._planner, self._voters, self._scorers, self._clock = planner, voters, scorers, clock

    async def annotate(self, job: Job, *, alone: bool = False) -> Prediction | None:
        """The prediction for one task in Label Studio's form.

        Questions that already have a round are looked up and teach nothing again. They have the label and
        score of their latest counting. With ``show_votes`` the
        result is a list: a prediction for each model that voted, then the ensemble's.

        Args:
            job: the task.
            alone: whether the task is the only one of its request. Somebody may have opened it, so all its
                models are asked at once.

        Returns:
            The prediction; ``None`` if the task is kept blind for an audit, or has no stored round where only
            those count.

        Raises:
            TaskError: no prediction is possible; says why.
        """
        try:
            with self._voters.preparing(alone=alone):
                return await self._annotate(job, alone)
        except BatchPendingError:
            raise  # the task has not failed: it waits
        except TaskError as error:
            failure = error  # Python unbinds ``error`` after this block, perhaps before the writer's turn
            if not job.stored_only:
                await self._note(lambda connection: record_failure(connection, job, failure, self._clock()))
            raise

    async def _annotate(self, job: Job, alone: bool) -> Prediction | None:
        if not self._embedder.loaded:
            await asyncio.get_running_loop().run_in_executor(self._readers, self._embedder.load)
        questions = await self._questions_of(job)
        keys = tuple(question.key for question in questions)
        finished, failed_before = await self._stored.read(LookUp(job.project, job.task, keys))
        unanswered = [question for question in questions if question.key not in finished]
        if job.stored_only:
            return self._prediction(job, questions, finished)
        visible, errors = await self._questions.with_images(job, unanswered)
        skip_questions(job, errors, all_fail=not finished and not visible)
        if visible:
            finished |= {round_.key: round_ for round_ in await self._run_rounds(job, visible, alone)}
        if failed_before:
            await self._note(lambda connection: forget_failure(connection, job))
        return self._prediction(job, questions, finished)

    def _prediction(
        self, job: Job, questions: Sequence[JobQuestion], finished: Mapping[RoundKey, Round]
    ) -> Prediction | None:
        """The prediction of the decided questions; ``None`` if the task is blind or none is decided."""
        if job.audit or any(round_.audit for round_ in finished.values()):  # ``audit`` may have been lowered
            return None
        if not finished:
            return None
        decided = [
            (question.question, finished[question.key]) for question in questions if question.key in finished
        ]
        prediction = prediction_of(decided, job.settings.model_version)
        if not job.settings.show_votes:
            return prediction
        return [*model_predictions(decided, job.settings.model_version), prediction]

    async def _questions_of(self, job: Job) -> list[JobQuestion]:
        """The questions whose texts the task has; a redactor may be slow, so it runs in a thread."""
        if job.settings.redact is None:
            return self._questions.with_texts(job)
        return await asyncio.get_running_loop().run_in_executor(
            self._readers, self._questions.with_texts, job
        )

    async def _note(self, change: Callable[[Connection], None]) -> None:
        """Change the list of failed tasks. If that fails, the list is out of date, but the task is done."""
        try:
            await self._writer.run(change)
        except LedgerError as error:
            _log.error("failed_tasks_not_updated", code=error.code, reason=str(error))

    async def _run_rounds(self, job: Job, questions: Sequence[JobQuestion], alone: bool) -> list[Round]:
        """Plan, ask, decide and record the questions that have no round yet."""
        aggregations = [question.aggregation for question in questions]
        policy = policy_of(job.settings.policy, aggregations)
        contexts = EmbeddedContexts(self._embedder)
        prompt = await write_prompt(job, questions, contexts, self._examples, alone=alone)
        unpacked, stage = await self._pack_guard.unpacked(job), await self._stage(job, questions, prompt)
        unpacked = unpacked if stage is None else stage.unpacked(unpacked)
        policy, expected = offered(policy, self._voters.expected_costs(job, prompt, unpacked))
        allowance = await self._allowances.allowance(policy, job, expected)
        conditions = Conditions(everyone=job.everyone, allowance=allowance)
        conditions = conditions if stage is None else stage.limit(conditions)
        with tracing.plan() as span:
            plan, student = await self._planner.plan(job, questions, contexts, policy, expected, conditions)
            plan = plan if stage is None else stage.fixed(plan)
            embedding = self._embed(job, questions, contexts, plan)
            span.note(POLICY=job.settings.policy.name, FIRST=plan.subset)
        known = {} if student is None else student.replies
        replies, beside = await self._replies(policy, plan, job, prompt, known, stage)
        votes, confidences = votes_of(replies), confidences_of(replies)
        costs = {arm: reply.cost for arm, reply in (beside | replies).items()}
        decisions = policy.decide(plan, votes, confidences=confidences)
        if not decisions:
            raise no_vote_error(job, replies)
        if embedding is not None:
            await embedding
            plan = plan.with_contexts({question.name: contexts.so_far(question) for question in questions})
        scores = await calibrated_scores(self._scorers, job, questions, plan, votes, decisions)
        shown = {arm: count for arm, count in prompt.shown.items() if arm in votes}
        versions = {arm: reply.version for arm, reply in replies.items() if reply.version is not None}
        studied = {} if student is None else student.studied(policy, plan, votes, confidences)
        outcome = TaskOutcome(
            policy, plan, votes, decisions, costs, scores, prompt.tasks, shown, confidences, versions, studied
        )
        outcome = replace(outcome, packs=compared(job, plan, replies, beside))
        finished = Finished(job, questions, outcome, self._clock())
        stored, new = await self._writer.persist(GroupedWrite(record_rounds, finished))
        for round_ in new:
            control = metrics.label_value(round_.key.control)
            metrics.rounds.labels(project=job.project, control=control).inc()
            metrics.models_asked.labels(project=job.project, control=control).inc(
                len(round_.votes.keys() - {STUDENT})
            )
        if stage is not None:
            stage.ended()
        return [*stored, *new]

    @staticmethod
    def _embed(
        job: Job, questions: Sequence[JobQuestion], contexts: EmbeddedContexts, plan: Plan
    ) -> asyncio.Task[None] | None:
        """Embed the texts while models are asked, if the round is to hold their contexts.

        People may review it, or what it teaches hangs on the context: it asks everyone, or is planned by it.
        """
        explores = plan.stages is None or plan.stages.exploration == "everyone"
        if not (job.review or explores or any(map(is_known, map(contexts.so_far, questions)))):
            return None
        return contexts.embed(questions)

    async def _stage(
        self, job: Job, questions: Sequence[JobQuestion], prompt: TaskPrompt
    ) -> BatchStage | None:
        """The task's stage of a batch; ``None`` if all models are asked at once.

        Raises:
            BatchPendingError: the task waits for an earlier stage.
        """
        if job.batching is None:
            return None
        stage = await self._batch_stages.begin(job, job.batching, questions, prompt)
        if stage.incomplete:
            await stage.keep(None)
            raise pending(job)
        return stage

    async def _replies(  # noqa: PLR0917 - what asking needs
        self,
        policy: Policy,
        plan: Plan,
        job: Job,
        prompt: TaskPrompt,
        known: Mapping[str, ModelReply],
        stage: BatchStage | None,
    ) -> tuple[dict[str, ModelReply], dict[str, ModelReply]]:
        """Ask the models, at once or by batches.

        Raises:
            BatchPendingError: lines of the stage have to be bought first; they are stored with the plan.
        """
        waiting = partial(self._voters.waiting, prompt)
        if stage is None:
            return await ask_models(policy, plan, self._voters, job, prompt, known=known, waiting=waiting)
        known = {**known, **{arm: stage.replies[arm] for arm in plan.arms if arm in stage.replies}}
        beside = {arm: reply for arm, reply in stage.replies.items() if arm not in known}
        try:
            return await ask_models(
                policy, plan, stage, job, prompt, known=known, known_beside=beside, waiting=waiting
            )
        except BatchPendingError:
            await stage.keep(plan)
            raise
