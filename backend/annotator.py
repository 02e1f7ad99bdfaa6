"""One task's way: embed → plan → ask → decide → record → prediction."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import Connection

from backend import feedback, metrics, prompts
from backend.embedding import Embedder
from backend.epoch import epoch_of, question_hash
from backend.labels import LabelConfig, Question
from backend.ledger import Ledger, Writer, deleted_tasks, rounds
from backend.ledger.rounds import Round, RoundKey
from backend.llms import Pool
from backend.policies import policy_of
from backend.prediction import Prediction, prediction_of, votes_of
from backend.queries import Queries, Query
from backend.scores import Scores
from backend.settings import Settings
from backend.states import StateKey, States
from camvo.aggregation import LABEL_VOTE
from camvo.errors import BadAnswerError, ModelError, NoVoteError, TaskDeletedError, TaskError
from camvo.estimates import Observation
from camvo.plan import Decision, Plan
from camvo.policy import Policy
from camvo.typing import Array

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Job:
    """One task to annotate: Label Studio's task id and data, the parsed config, the project's settings."""

    project: str
    task: int
    data: Mapping[str, Any]
    config: LabelConfig
    settings: Settings


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question of a job that has no round yet, with all that planning it needs."""

    question: Question
    key: RoundKey
    text: str


@dataclass(frozen=True, slots=True)
class _Prompt:
    """What every model is sent about a task, and the questions that its answer is read for."""

    questions: Sequence[Question]
    messages: Sequence[Mapping[str, str]]
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Verdict:
    """How a task was decided; ``costs`` says what each arm that was asked cost, in $.

    ``scores`` holds each question's score as it is shown, where the policy's own was calibrated.
    """

    policy: Policy
    plan: Plan
    votes: Mapping[str, Mapping[str, str]]
    decisions: Mapping[str, Decision]
    costs: Mapping[str, float]
    scores: Mapping[str, float]

    @property
    def cost(self) -> float:
        """What was paid, in $."""
        return sum(self.costs.values())

    @property
    def full_cost(self) -> float:
        """What asking every model would have cost, in $: the expected price of those that were spared."""
        expected = dict(zip(self.plan.arms, map(float, self.plan.costs), strict=True))
        return sum((expected | dict(self.costs)).values())


class Annotator:
    """Turns jobs into predictions. Everything here runs on the process's one event loop."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        writer: Writer,
        readers: Executor,
        states: States,
        queries: Queries,
        pool: Pool,
        embedder: Embedder,
        scores: Scores,
        clock: Callable[[], float],
    ) -> None:
        self._ledger, self._writer, self._readers = ledger, writer, readers
        self._states, self._queries, self._pool, self._embedder = states, queries, pool, embedder
        self._scores, self._clock = scores, clock

    async def annotate(self, job: Job) -> Prediction | None:
        """The prediction for one task in Label Studio's form; ``None`` for a task kept blind for an audit.

        With ``show_votes`` a list: the prediction, then one for each model that voted.

        A task that was annotated before is looked up and teaches nothing again.

        Raises:
            TaskError: no prediction is possible; says why.
        """
        if not self._embedder.loaded:
            await asyncio.get_running_loop().run_in_executor(self._readers, self._embedder.load)
        asked = self._questions(job)
        found = await self._stored([one.key for one in asked])
        open_questions = [one for one in asked if one.key not in found]
        if open_questions:
            found |= {round_.key: round_ for round_ in await self._annotate(job, open_questions)}
        if is_audit(job.project, job.task, job.settings.audit):
            return None
        decided = [(one.question, found[one.key]) for one in asked if one.key in found]
        prediction = prediction_of(decided, job.settings.model_version)
        if not job.settings.show_votes:
            return prediction
        return [prediction, *votes_of(decided, job.settings.model_version)]

    def _questions(self, job: Job) -> list[_Asked]:
        """The questions whose texts are there; one that lacks its own does not cost the others."""
        asked: list[_Asked] = []
        lacking: list[TaskError] = []
        for question in job.config.questions:
            try:
                asked.append(self._question(job, question))
            except TaskError as error:
                lacking.append(error)
        if lacking and not asked:
            raise lacking[0]
        for lack in lacking:
            _log.warning("question_skipped", task=job.task, code=lack.code, reason=str(lack))
        return asked

    def _question(self, job: Job, question: Question) -> _Asked:
        texts = question.texts(job.data)
        key = RoundKey(
            project=job.project,
            task=job.task,
            control=question.name,
            question=question_hash(texts),
            epoch=epoch_of(question, job.settings.instructions, self._embedder.identity),
        )
        return _Asked(question, key, "\n".join(texts.values()))

    async def _stored(self, keys: Sequence[RoundKey]) -> dict[RoundKey, Round]:
        def read() -> dict[RoundKey, Round]:
            with self._ledger.read() as connection:
                return rounds.find(connection, keys)

        return await asyncio.get_running_loop().run_in_executor(self._readers, read)

    async def _annotate(self, job: Job, asked: Sequence[_Asked]) -> list[Round]:
        """Plan, ask, decide and record the questions that have no round yet."""
        policy = policy_of(job.settings.policy)
        questions = [one.question for one in asked]
        messages = prompts.messages(questions, job.data, job.settings.instructions)
        prompt = _Prompt(questions, messages, prompts.schema(questions))
        plan = policy.plan(await self._observe(job, asked), self._costs(job, messages))
        votes: dict[str, dict[str, str]] = {}
        costs: dict[str, float] = {}
        while arms := policy.ask(plan, votes):
            replies = await asyncio.gather(
                *(self._vote(job, arm, prompt) for arm in arms), return_exceptions=True
            )
            for arm, reply in zip(arms, replies, strict=True):
                if isinstance(reply, BaseException):
                    raise reply
                votes[arm], costs[arm] = reply
        decisions = policy.decide(plan, votes)
        if not decisions:
            raise NoVoteError(
                f"none of the {len(votes)} models that were asked gave a valid answer",
                where=f"task {job.task}",
                fix="see camvo_model_calls in /metrics for the reasons",
            )
        scores = await self._calibrated(job, asked, plan, votes, decisions)
        verdict = _Verdict(policy, plan, votes, decisions, costs, scores)
        there, new = await self._writer.run(lambda connection: self._record(connection, job, asked, verdict))
        for round_ in new:
            metrics.rounds.labels(project=job.project, control=round_.key.control).inc()
            metrics.asked.labels(project=job.project, control=round_.key.control).inc(len(round_.votes))
        return [*there, *new]

    async def _observe(self, job: Job, asked: Sequence[_Asked]) -> dict[str, Observation]:
        contexts: list[Array] = await asyncio.gather(*(self._embedder.vector(one.text) for one in asked))
        observations = {}
        for one, context in zip(asked, contexts, strict=True):
            state = await self._states.current(
                StateKey(job.project, one.key.control, one.key.epoch),
                dimension=self._embedder.dimension,
                lambda_l=job.settings.policy.lambda_l,
            )
            labels = tuple(label.value for label in one.question.labels)
            observations[one.question.name] = Observation(state, context, labels)
        return observations

    async def _calibrated(
        self,
        job: Job,
        asked: Sequence[_Asked],
        plan: Plan,
        votes: Mapping[str, Mapping[str, str]],
        decisions: Mapping[str, Decision],
    ) -> dict[str, float]:
        """The calibrated scores, frozen here: before any human sees the prediction."""
        scores = {}
        for one in asked:
            name, estimates = one.question.name, plan.estimates[one.question.name]
            if not job.settings.calibrate or name not in decisions or estimates.aggregation is not LABEL_VOTE:
                continue
            key = StateKey(job.project, one.key.control, one.key.epoch)
            scorer = await self._scores.current(key, plan.arms, estimates.labels)
            cast = {arm: answers[name] for arm, answers in votes.items() if name in answers}
            scores[name] = scorer.score(cast, decisions[name].label)
        return scores

    def _costs(self, job: Job, messages: Sequence[Mapping[str, str]]) -> dict[str, float]:
        """The expected price of each model that is not resting; of all of them when all are."""
        names = [model.name for model in job.settings.models]
        awake = [name for name in names if not self._pool.resting(name)]
        return {name: self._pool.cost(name, messages) for name in awake or names}

    async def _vote(self, job: Job, arm: str, prompt: _Prompt) -> tuple[dict[str, str], float]:
        """One model's labels by question, empty where it failed, and what asking it cost in $."""
        query = Query(job.project, job.task, arm, prompt.messages, prompt.schema, job.settings.budget)
        try:
            reply = await self._queries.ask(query, patience=job.settings.deadline)
        except ModelError as error:
            metrics.votes_missing.labels(model=arm, reason=error.code).inc()
            return {}, error.usage.cost if error.usage else 0.0
        try:
            labels = prompts.parse(reply.content, prompt.questions)
        except BadAnswerError as error:
            labels = {}
            metrics.votes_missing.labels(model=arm, reason=error.code).inc()
            _log.info("no_vote", model=arm, task=job.task, code=error.code)
        self._pool.judge(arm, usable=bool(labels))
        return labels, reply.cost

    def _record(
        self, connection: Connection, job: Job, asked: Sequence[_Asked], verdict: _Verdict
    ) -> tuple[list[Round], list[Round]]:
        """Store the rounds and what they teach, in one transaction; one that another process stored wins.

        Returns:
            The rounds that were there already, and the new ones.

        Raises:
            TaskDeletedError: the task was deleted meanwhile; nothing of it is stored.
        """
        if deleted_tasks.contain(connection, job.project, job.task):
            raise TaskDeletedError("the task was deleted meanwhile", where=f"task {job.task}")
        there = rounds.find(connection, [one.key for one in asked])
        new: list[Round] = []
        for one in asked:
            name = one.question.name
            if one.key in there or name not in verdict.decisions:
                continue
            voted = verdict.decisions[name]
            labels = verdict.plan.estimates[name].labels
            human = feedback.human_label(connection, job.project, job.task, name, labels)
            label, taught_by = feedback.teacher(voted.label, human, job.settings)
            round_ = Round(
                key=one.key,
                plan=verdict.plan.describe(name) | {"score": voted.score},
                votes={arm: answers.get(name) for arm, answers in verdict.votes.items()},
                label=voted.label,
                score=verdict.scores.get(name, voted.score),
                cost_usd=verdict.cost / len(asked),
                full_cost_usd=verdict.full_cost / len(asked),
                audit=is_audit(job.project, job.task, job.settings.audit),
                taught=label,
                taught_by=taught_by,
                context=verdict.plan.estimates[name].context,
                created_at=self._clock(),
                human=human,
                confirmed=feedback.confirmation(voted.label, human),
            )
            contribution = verdict.policy.contribution(
                verdict.plan, name, verdict.votes, label, human=taught_by == "human"
            )
            feedback.teach(connection, round_, contribution, now=self._clock())
            new.append(round_)
        return list(there.values()), new


def is_audit(project: str, task: int, share: float) -> bool:
    """Whether a task is annotated blind, decided by a hash so that every process decides alike."""
    digest = hashlib.sha256(f"audit:{project}:{task}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64
