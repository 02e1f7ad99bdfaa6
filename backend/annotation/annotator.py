"""One task's way from a job to a prediction: embed, plan, ask, decide, record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace

import structlog
from sqlalchemy import Connection

from backend.annotation.asking import Asking, Voters
from backend.annotation.batch_stage import BatchStages
from backend.annotation.job import Job, JobQuestion
from backend.annotation.job_questions import JobQuestions, skip_questions
from backend.annotation.planner import Allowances, Openings, Planned, Planner, Terms
from backend.annotation.recording import (
    FinishedTask,
    Known,
    LookUp,
    count_rounds,
    forget_failure,
    look_up,
    record_failure,
    record_rounds,
)
from backend.annotation.replies import no_vote_error
from backend.annotation.task_prompt import Contexts, EmbeddedContexts, TaskPrompt, write_prompt
from backend.errors import BatchPendingError, LedgerError, TaskDeletedError, TaskError
from backend.label_studio.predictions import Prediction, model_predictions, prediction_of
from backend.learning.examples import Examples
from backend.learning.label_schemes import LabelSchemes
from backend.learning.states import Scorers, StateKey
from backend.ledger import Ledger, Writer
from backend.ledger.database.writer import GroupedReads, GroupedWrite
from backend.ledger.rounds import Round, RoundKey
from backend.models.embedder import Embedder
from backend.questions.question import questions_to_ask
from backend.settings.policies import policy_of
from backend.telemetry import tracing
from camvo.numerics.small import is_known
from camvo.policies.policy import Conditions, Plan
from camvo.votes.aggregation import Decision
from camvo.votes.labels import LABEL_VOTE

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
        schemes: LabelSchemes,
        clock: Callable[[], float],
    ) -> None:
        self._writer, self._readers = writer, readers
        self._stored = GroupedReads(ledger, readers, look_up)
        self._embedder, self._questions, self._examples = embedder, questions, examples
        self._schemes = schemes
        self._batch_stages = batch_stages
        self._openings = Openings()
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
            TaskError: a question has no label; says why, and holds the prediction of the others.
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
        job = replace(job, config=await self._schemes.settled(job.project, job.config, job.settings))
        questions = await self._questions_of(job)
        keys = tuple(question.key for question in questions)
        known = await self._stored.read(LookUp(job.project, job.task, keys, job.audit))
        finished = known.rounds
        if job.stored_only:
            return self._prediction(job, questions, finished)
        try:
            await self._decide(job, questions, known, alone=alone)
        except (BatchPendingError, TaskDeletedError):
            raise
        except TaskError as error:
            error.partial = self._prediction(job, questions, finished)
            raise
        if known.failed:
            await self._note(lambda connection: forget_failure(connection, job))
        return self._prediction(job, questions, finished)

    async def _decide(self, job: Job, questions: Sequence[JobQuestion], known: Known, *, alone: bool) -> None:
        """Decide the questions that have no round yet, and add their rounds.

        A question under a condition is asked once the questions that it depends on are decided, and only if
        annotators then see it. The others are asked together.
        """
        askable = list(questions)
        while asked := _ready(askable, known.rounds):
            visible, errors = await self._questions.with_images(job, asked)
            skip_questions(job, errors, all_fail=not known.rounds and not visible)
            names = {question.name for question in asked} - {question.name for question in visible}
            askable = [question for question in askable if question.name not in names]
            if visible:
                await self._run_rounds(job, visible, known, alone=alone)

    def _prediction(
        self, job: Job, questions: Sequence[JobQuestion], finished: Mapping[RoundKey, Round]
    ) -> Prediction | None:
        """The prediction of the decided questions; ``None`` if the task is blind or none is decided.

        It is blind as its rounds are: ``audit`` may have been changed since.
        """
        if not finished or any(round_.audit for round_ in finished.values()):
            return None
        decided = [(question, finished[question.key]) for question in questions if question.key in finished]
        prediction = prediction_of(decided, job.settings.model_version, job.settings.prefill)
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

    async def _run_rounds(
        self, job: Job, questions: Sequence[JobQuestion], known: Known, *, alone: bool
    ) -> None:
        """Plan, ask, decide and record the questions that have no round yet, and add their rounds.

        Raises:
            TaskError: no model voted on one of the questions; the others have their rounds.
        """
        contexts = EmbeddedContexts(self._embedder)
        prompt = await write_prompt(job, questions, contexts, self._examples, alone=alone)
        asking = await self._asking(job, questions, prompt)
        terms = await self._terms(job, questions, asking)
        policy = terms.policy
        with tracing.plan() as span:
            packed = any(model.pack is not None for model in job.settings.models)
            held = job.batching is None and not (alone or packed)  # a held task fills no prompt
            planned = await self._planned(job, questions, contexts, terms, held=held)
            plan = asking.fixed(planned.plan)
            planned_at = self._clock()
            embedding = self._embed(job, questions, contexts, plan)
            span.note(POLICY=job.settings.policy.name, FIRST=plan.subset)
        with self._openings.asking(job.project, plan):
            replies = await asking.ask(policy, plan, planned.known)
            decisions = policy.decide(plan, replies.votes, confidences=replies.confidences)
            undecided = [question.name for question in questions if question.name not in decisions]
            if not decisions:
                raise no_vote_error(job, replies, undecided if known.rounds else ())
            if embedding is not None:
                await embedding
                embedded = {question.name: contexts.so_far(question) for question in questions}
                plan = plan.with_contexts(embedded)
            task = FinishedTask(
                job=job,
                questions=questions,
                prompt=prompt,
                policy=policy,
                plan=plan,
                replies=replies,
                decisions=decisions,
                scores=await self._scores(job, questions, plan, replies.votes, decisions),
                studied=planned.studied(policy, plan, replies),
                planned_at=planned_at,
                now=self._clock(),
                blind=known.blind,
            )
            stored, new = await self._writer.persist(GroupedWrite(record_rounds, task))
            count_rounds(new)
            asking.ended()
            known.rounds.update({round_.key: round_ for round_ in [*stored, *new]})
        if undecided:
            raise no_vote_error(job, replies, undecided)

    async def _planned(
        self, job: Job, questions: Sequence[JobQuestion], contexts: Contexts, terms: Terms, *, held: bool
    ) -> Planned:
        """The plan; made again once the first rounds of the project have ended, if they are to be awaited.

        All waits together are bounded: a task has a deadline.
        """
        until = self._openings.patience_ends()
        ended = self._openings.ended_so_far(job.project)
        planned = await self._planner.plan(job, questions, contexts, terms)
        while held and self._openings.is_full(job.project, planned.plan, ended):
            held = await self._openings.wait(job.project, until)
            ended = self._openings.ended_so_far(job.project)
            planned = await self._planner.plan(job, questions, contexts, terms)
        return planned

    async def _asking(self, job: Job, questions: Sequence[JobQuestion], prompt: TaskPrompt) -> Asking:
        """How the task's models are asked: at once, or in the stages of a provider's batch.

        Raises:
            BatchPendingError: the task waits for an earlier stage.
        """
        if job.batching is None:
            return Asking(self._voters, job, prompt)
        return await self._batch_stages.begin(job, job.batching, questions, prompt)

    async def _terms(self, job: Job, questions: Sequence[JobQuestion], asking: Asking) -> Terms:
        """The policy, the price of each arm that it may ask, and the task's conditions."""
        policy = policy_of(job.settings.policy, [question.aggregation for question in questions])
        policy, costs = await asking.offered(policy)
        allowance = await self._allowances.allowance(policy, job, costs)
        waits = self._voters.waits(job, costs)
        conditions = Conditions(everyone=job.everyone, allowance=allowance, waits=waits)
        return Terms(policy, costs, asking.limit(conditions))

    @staticmethod
    def _embed(
        job: Job, questions: Sequence[JobQuestion], contexts: EmbeddedContexts, plan: Plan
    ) -> asyncio.Task[None] | None:
        """Embed the texts while models are asked, if the round is to hold their contexts.

        It is if people may review the round, if it asks every model, or if it is planned by the contexts.
        """
        explores = plan.stages is None or plan.stages.exploration == "everyone"
        if not (job.review or explores or any(map(is_known, map(contexts.so_far, questions)))):
            return None
        return contexts.embed(questions)

    async def _scores(
        self,
        job: Job,
        questions: Sequence[JobQuestion],
        plan: Plan,
        votes: Mapping[str, Mapping[str, str]],
        decisions: Mapping[str, Decision],
    ) -> dict[str, float]:
        """The calibrated score of each decided question whose votes are single labels, by question.

        Empty if ``calibrate`` is off. The scores are stored with the rounds: they are computed before any
        human sees the prediction, and later fits do not change them.
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
            scorer = await self._scorers.current(key, plan.arms, estimates.labels)
            scores[name] = scorer.score_decision(votes_cast, decisions[name])
        return scores


def _ready(questions: Sequence[JobQuestion], rounds: Mapping[RoundKey, Round]) -> list[JobQuestion]:
    """The questions without a round that annotators see, by those with one."""
    labels = {question.name: rounds[question.key].label for question in questions if question.key in rounds}
    ready = questions_to_ask([question.config for question in questions], labels)
    return [question for question in questions if question.name in ready]
