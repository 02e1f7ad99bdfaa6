"""Asks models that a task's rounds left out, and stores their votes beside the rounds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

import structlog
from sqlalchemy import Connection

from backend.annotation.asking import ask_models
from backend.annotation.job import Job, JobQuestion
from backend.annotation.job_questions import JobQuestions
from backend.annotation.plans.contexts import StoredContexts
from backend.annotation.plans.planner import Planner
from backend.annotation.task_prompt import TaskPrompt, write_prompt
from backend.annotation.voters import ModelReply, Voters
from backend.errors import BudgetExhaustedError, TaskError
from backend.learning.examples import Examples
from backend.learning.teaching import correct_rewards
from backend.ledger import Ledger, Writer, deleted_tasks, human_annotations, rounds
from backend.ledger.database import outages
from backend.ledger.recounts import further_votes
from backend.ledger.recounts import rows as recounts
from backend.ledger.recounts.further_votes import FurtherVote, Purpose
from backend.ledger.rounds import Round
from backend.models.rates.gate import request_size
from backend.settings.policies import policy_of
from camvo.policies.past_rounds.going_on import goes_on
from camvo.student.taught_texts import STUDENT
from camvo.twins.same_model import unheard

_BULK = 1_000_000
"""The size of request that these calls count as: those of predictions go first."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Bought:
    """What was asked about one task.

    Attributes:
        votes: how many models were asked.
        usd: what they cost, in $.
        exhausted: whether money did not cover a call.
    """

    votes: int = 0
    usd: float = 0.0
    exhausted: bool = False


@dataclass(frozen=True, slots=True)
class _Found:
    """The questions of a task that have a round, and these rounds."""

    questions: Sequence[JobQuestion]
    rounds: Sequence[Round]

    @property
    def contexts(self) -> StoredContexts:
        """The contexts that the rounds hold."""
        pairs = zip(self.questions, self.rounds, strict=True)
        return StoredContexts({question.name: round_.context for question, round_ in pairs})

    @property
    def replies(self) -> dict[str, ModelReply]:
        """The votes that are there: arm → its votes by question."""
        votes: dict[str, dict[str, str]] = {}
        sure: dict[str, dict[str, float]] = {}
        for question, round_ in zip(self.questions, self.rounds, strict=True):
            for arm, vote in round_.votes.items():
                answers = votes.setdefault(arm, {})
                if vote is not None:
                    answers[question.name] = vote
            for arm, share in round_.plan.get("confidences", {}).items():
                sure.setdefault(arm, {})[question.name] = share
        return {arm: ModelReply(cast, 0.0, confidences=sure.get(arm, {})) for arm, cast in votes.items()}

    def costs(self, expected: Mapping[str, float]) -> dict[str, float]:
        """The price of every arm whose vote may count: also of those that have voted and now rest."""
        planned = {
            arm: float(round_.plan["arms"][arm]["cost"])
            for round_ in self.rounds
            for arm in round_.votes
            if arm in round_.plan["arms"] and arm != STUDENT
        }
        return planned | dict(expected)


class FurtherAsking:
    """Asks models that rounds left out. Used from one event loop only.

    Args:
        ledger: where the rounds are read.
        writer: stores votes.
        readers: the threads that read the ledger.
        questions: what a job asks.
        examples: the labelled tasks that prompts show.
        planner: plans with the current states.
        voters: the models.
        clock: returns unix seconds.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        writer: Writer,
        readers: Executor,
        questions: JobQuestions,
        examples: Examples,
        planner: Planner,
        voters: Voters,
        clock: Callable[[], float],
    ) -> None:
        self._ledger, self._writer, self._readers = ledger, writer, readers
        self._questions, self._examples, self._planner = questions, examples, planner
        self._voters, self._clock = voters, clock

    async def ask_in_doubt(self, job: Job, worth_usd: float) -> Bought:
        """Ask about a task that nobody has annotated while its policy finds a vote worth asking for.

        Args:
            job: the task; its purse pays.
            worth_usd: what one more right label is worth, in $.

        Raises:
            TaskError: the task has no text, or models cannot be asked.
            LedgerError: the ledger failed.
        """
        found = await self._find(job, annotated=False)
        if found is None:
            return Bought()
        aggregations = [question.control.aggregation for question in job.config.questions]
        going_on = goes_on(policy_of(job.settings.policy, aggregations))
        if going_on is None:
            return Bought()
        prompt, policy = await self._prompt(job, found), going_on.going_on(worth_usd)
        costs = found.costs(unheard(self._voters.expected_costs(job, prompt), found.replies))
        plan, _ = await self._planner.plan(job, found.questions, found.contexts, policy, costs)
        request_size.set(_BULK)
        known = found.replies
        try:
            replies, _ = await ask_models(policy, plan, self._voters, job, prompt, known=known)
        except BudgetExhaustedError:  # no model had voted at all
            return Bought(exhausted=True)
        return await self._store(job, found, known, replies, "doubt")

    async def ask_everyone(self, job: Job) -> Bought:
        """Ask every model that is left about a task that people have labelled: the label then teaches more.

        Args:
            job: the task; its purse pays.

        Raises:
            TaskError: the task has no text, or models cannot be asked.
            LedgerError: the ledger failed.
        """
        found = await self._find(job, annotated=True)
        if found is None:
            return Bought()
        prompt, known = await self._prompt(job, found), found.replies
        left = [arm for arm in unheard(self._voters.expected_costs(job, prompt), known) if arm not in known]
        request_size.set(_BULK)
        answers = await asyncio.gather(
            *(self._voters.vote(job, arm, prompt) for arm in left), return_exceptions=True
        )
        replies = dict(known)
        for arm, answer in zip(left, answers, strict=True):
            if isinstance(answer, BudgetExhaustedError):
                replies[arm] = ModelReply({}, 0.0, answer.code)
            elif isinstance(answer, TaskError):
                raise answer
            elif isinstance(answer, BaseException):
                _log.error("vote_failed", model=arm, task=job.task, kind=type(answer).__name__)
            else:
                replies[arm] = answer
        return await self._store(job, found, known, replies, "human")

    async def _find(self, job: Job, *, annotated: bool) -> _Found | None:
        """The task's questions with a round; ``None`` without any, or if people have come in between."""
        questions = self._questions.with_texts(job)

        def read(connection: Connection) -> _Found | None:
            if is_annotated(connection, job) != annotated:
                return None
            stored = recounts.with_latest(
                connection, rounds.find_by_key(connection, [question.key for question in questions])
            )
            asked = [each for each in questions if each.key in stored and not stored[each.key].pruned]
            further = further_votes.of_rounds(connection, [round_.id for round_ in stored.values()])
            return _Found(asked, [_sure(stored[question.key], further) for question in asked])

        found = await outages.read(self._ledger, self._readers, read)
        if found is None or not found.questions:
            return None
        visible, _ = await self._questions.with_images(job, found.questions)
        by_name = {question.name: question for question in visible}
        pairs = [
            (by_name[question.name], round_)
            for question, round_ in zip(found.questions, found.rounds, strict=True)
            if question.name in by_name
        ]
        return _Found([one for one, _ in pairs], [other for _, other in pairs]) if pairs else None

    async def _prompt(self, job: Job, found: _Found) -> TaskPrompt:
        return await write_prompt(job, found.questions, found.contexts, self._examples, alone=True)

    async def _store(
        self,
        job: Job,
        found: _Found,
        known: Mapping[str, ModelReply],
        replies: Mapping[str, ModelReply],
        purpose: Purpose,
    ) -> Bought:
        """Store the new votes. A call that failed for nothing is not stored, so that it can be repeated."""
        news = {arm: reply for arm, reply in replies.items() if arm not in known}
        exhausted = any(reply.failure == BudgetExhaustedError.code for reply in news.values())
        paid = {arm: reply for arm, reply in news.items() if reply.votes or reply.cost > 0.0}
        if not paid:
            return Bought(exhausted=exhausted)

        def store(connection: Connection) -> None:
            if deleted_tasks.is_deleted(connection, job.project, job.task):
                return
            further_votes.store(connection, job.project, _rows(found, paid, purpose, self._clock()))
            correct_rewards(connection, job.project, job.task, job.settings, self._clock())

        await self._writer.persist(store)
        return Bought(len(paid), sum(reply.cost for reply in paid.values()), exhausted)


def is_annotated(connection: Connection, job: Job) -> bool:
    """Whether people have annotated the task, as far as the ledger knows; a skipped one counts."""
    of_task = human_annotations.of_task(connection, job.project, job.task)
    return any(not annotation.withdrawn for annotation in of_task)


def _sure(round_: Round, further: Mapping[int, Sequence[FurtherVote]]) -> Round:
    """The round with the confidences of its further votes; it has the votes already."""
    sure = further_votes.all_confidences(round_.plan.get("confidences", {}), further.get(round_.id, ()))
    return replace(round_, plan={**round_.plan, "confidences": sure}) if sure else round_


def _rows(found: _Found, paid: Mapping[str, ModelReply], purpose: Purpose, now: float) -> list[FurtherVote]:
    """One row for each round and model; a call's cost is shared equally among the rounds."""
    return [
        FurtherVote(
            round_id=round_.id,
            model=arm,
            task=round_.key.task,
            vote=reply.votes.get(question.name),
            confidence=reply.confidences.get(question.name),
            cost_usd=reply.cost / len(found.rounds),
            purpose=purpose,
            created_at=now,
        )
        for question, round_ in zip(found.questions, found.rounds, strict=True)
        for arm, reply in paid.items()
    ]
