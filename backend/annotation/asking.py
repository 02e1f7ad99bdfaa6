"""The asking loop: models are asked stage by stage until the policy stops."""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Protocol

import structlog
from sqlalchemy import Connection

from backend.annotation.job import Job
from backend.annotation.task_prompt import TaskPrompt
from backend.errors import (
    BadAnswerError,
    BudgetExhaustedError,
    ModelError,
    NoUsableAnswerError,
    NoVoteError,
    TaskError,
    UnusableAnswersError,
)
from backend.ledger import Ledger
from backend.ledger.answers import PackCheck, PackChecks
from backend.ledger.database.writer import GroupedReads
from backend.models import Pool
from backend.models.call_ledger import ModelQuery, PaidAnswer
from backend.models.packed_pool import PackedPool
from backend.models.pool import CachingPool
from backend.questions.prompts.messages import Messages, image_addresses, parse_answer
from backend.questions.prompts.packs import PACK_VERSION, TYPICAL_ID, PackedTask
from backend.questions.question import TaskQuestion
from backend.telemetry import metrics, tracing
from camvo.errors import CamvoError
from camvo.policies.ensemble import Single
from camvo.policies.policy import Plan, Policy
from camvo.twins.twins import judge_pack, twins

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ModelReply:
    """The result of asking one model.

    Attributes:
        votes: question → vote; empty if the model failed.
        cost: what was paid for it, $.
        failure: the code of the reason why there are no votes; ``None`` if there are.
        confidences: question → how sure the model says it is of its vote, in [0, 1]; questions of which it
            says nothing are absent.
        version: the model's name at its provider, as the answer reports it; ``None`` if it reports none.
        together: whether the votes come from a prompt about several tasks.
    """

    votes: Mapping[str, str]
    cost: float
    failure: str | None = None
    confidences: Mapping[str, float] = field(default_factory=dict)
    version: str | None = None
    together: bool = False

    @classmethod
    def voted(
        cls, votes: Mapping[str, str], cost: float, confidences: Mapping[str, float], version: str | None
    ) -> ModelReply:
        """The reply of a model that voted.

        Args:
            votes: question → vote.
            cost: what was paid for it, $.
            confidences: those of the answer, also of questions without a vote.
            version: what the provider says answered.
        """
        sure = {name: confidence for name, confidence in confidences.items() if name in votes}
        # Fingerprints of several systems alternate all the time, so they say nothing about the model.
        return cls(votes, cost, confidences=sure, version=(version or "").partition(" ")[0] or None)


class Voters:
    """The pool's models, as voters on one task at a time. Used from one event loop only."""

    def __init__(self, queries: CachingPool, pool: Pool, packs: PackedPool | None = None) -> None:
        self._queries, self._pool, self._packs = queries, pool, packs

    def expected_costs(
        self, job: Job, prompt: TaskPrompt, unpacked: Collection[str] = ()
    ) -> dict[str, float]:
        """The expected price in $ of each arm that may be asked.

        Resting models are left out unless all of them rest. If the prompt has an image, models that cannot be
        shown it are left out. If the task may share a prompt, a model's packed arm is included as well.

        Args:
            job: the task.
            prompt: what models are shown.
            unpacked: the packed arms that are not to be asked.
        """
        names = [model.name for model in job.settings.models]
        if addresses := image_addresses(prompt.messages):
            names = self._shown(job, addresses)
        batched = frozenset() if job.batching is None else job.batching.models
        awake = [name for name in names if name in batched or not self._pool.resting(name)]
        costs: dict[str, float] = {}
        for model in job.settings.models:
            name, packed = model.name, model.packed
            if name not in (awake or names):
                continue
            price = self._pool.batch_cost if name in batched else self._pool.cost
            costs[name] = price(name, prompt.for_model(name))
            if packed is None or prompt.pack is None or self._packs is None or packed.name in unpacked:
                continue
            if name in batched or not self._pool.resting(packed.name):
                texts = prompt.pack.fenced(TYPICAL_ID)
                costs[packed.name] = self._pool.packed_cost(
                    packed.name, prompt.pack.system, texts, batched=name in batched
                )
        return costs

    def preparing(self, *, alone: bool) -> AbstractContextManager[None]:
        """During the block, others wait for this task in case it shares their prompt.

        Args:
            alone: whether it will share none.
        """
        return nullcontext() if alone or self._packs is None else self._packs.collector.preparing()

    def waiting(self, prompt: TaskPrompt) -> AbstractContextManager[None]:
        """During the block, the task waits for answers, and nobody waits for it."""
        packs = None if prompt.alone else self._packs
        return nullcontext() if packs is None else packs.collector.waiting()

    def can_see(self, job: Job, addresses: Sequence[str] = ()) -> bool:
        """Whether a model that may be asked can be shown images, at these addresses if any are given.

        The policy ``single`` asks only its own model.
        """
        shown, single = self._shown(job, addresses), job.settings.policy.model
        return bool(shown) if single is None else single in shown

    async def vote(self, job: Job, arm: str, prompt: TaskPrompt) -> ModelReply:
        """Ask one arm; one that fails gives a reply without votes.

        A task that is missing in the answer to a prompt about several is asked about singly.
        """
        model = twins(job.settings.arms).get(arm)
        if model is None or self._packs is None or prompt.pack is None:
            return await self._vote(job, arm, prompt)
        together = await self._packed_vote(self._packs, prompt.pack, job, arm, prompt)
        if together.votes or together.failure is not None:
            return together
        return asked_singly(together, await self._vote(job, model, prompt))

    async def _packed_vote(
        self, packs: PackedPool, task: PackedTask, job: Job, arm: str, prompt: TaskPrompt
    ) -> ModelReply:
        """Ask about the task in a prompt with others; without votes and a failure if it was missing."""
        query, usable = _query(job, arm, prompt, prompt.messages), _usable(prompt)
        answer = await _answer_of(packs.ask(query, task, job.settings.deadline, usable), arm)
        if isinstance(answer, ModelReply):
            return answer
        return packed_reply(votes_in(answer.content, prompt.questions), answer.cost, answer.version)

    async def _vote(self, job: Job, arm: str, prompt: TaskPrompt) -> ModelReply:
        """Ask one model about this task alone."""
        query = _query(job, arm, prompt, prompt.for_model(arm))
        asking = self._queries.ask(query, patience=job.settings.deadline, usable=_usable(prompt))
        answer = await _answer_of(asking, arm)
        if isinstance(answer, ModelReply):
            return answer
        votes = votes_in(answer.content, prompt.questions)
        self._pool.judge(arm, usable=bool(votes))
        if votes:
            return ModelReply.voted(votes, answer.cost, answer.confidences, answer.version)
        metrics.votes_missing.labels(model=arm, reason=BadAnswerError.code).inc()
        _log.info("no_vote", model=arm, task=job.task, code=BadAnswerError.code)
        return ModelReply({}, answer.cost, BadAnswerError.code)

    def _shown(self, job: Job, addresses: Sequence[str]) -> list[str]:
        names = (model.name for model in job.settings.models)
        return [name for name in names if self._pool.can_be_shown(name, addresses)]


def packed_reply(votes: Mapping[str, str], cost: float, version: str | None) -> ModelReply:
    """The reply of a packed arm; without votes if the task is missing in the answer.

    Args:
        votes: question → vote.
        cost: the task's share, $.
        version: what the provider says answered.
    """
    named = (version or "").partition(" ")[0]
    return ModelReply(votes, cost, version=_packed_version(named), together=True)


def asked_singly(together: ModelReply, alone: ModelReply) -> ModelReply:
    """The reply of a packed arm whose answer says nothing about the task: the single vote, at both prices."""
    version = _packed_version(alone.version) if alone.votes else None
    return replace(alone, cost=together.cost + alone.cost, confidences={}, version=version)


def _packed_version(version: str | None) -> str:
    """The version of a packed arm. A new wording of its prompts also restarts its history."""
    return f"{version or 'unnamed'} pack-{PACK_VERSION}"


def _query(job: Job, arm: str, prompt: TaskPrompt, messages: Messages) -> ModelQuery:
    return ModelQuery(
        job.project,
        job.task,
        arm,
        messages,
        prompt.schema,
        job.settings.budget,
        prompt.questions,
        job.again,
        job.purse,
    )


def _usable(prompt: TaskPrompt) -> Callable[[str], bool]:
    """Says whether an answer gives a vote."""
    return lambda content: bool(votes_in(content, prompt.questions))


async def _answer_of(asking: Awaitable[PaidAnswer], arm: str) -> PaidAnswer | ModelReply:
    """The answer, or the reply without votes of a model that failed."""
    try:
        return await asking
    except ModelError as error:
        metrics.votes_missing.labels(model=arm, reason=error.code).inc()
        return ModelReply({}, error.usage.cost if error.usage else 0.0, error.code)


def votes_in(content: str, questions: Sequence[TaskQuestion]) -> dict[str, str]:
    """Return the votes in an answer by question; empty if it is unusable."""
    try:
        return parse_answer(content, questions)
    except BadAnswerError:
        return {}


COIN: Final = 0.02
"""The share of packed tasks whose models are asked singly, too."""

_SAME: Final = 0.5
"""Two votes count as equal if one would earn at least this reward where the other is right."""


def _is_checked(project: str, task: int) -> bool:
    """Whether the coin chose a task; decided by a hash, so that all processes agree."""
    digest = hashlib.sha256(f"pack:{project}:{task}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < COIN * 2**64


def _to_check(job: Job, arms: Collection[str], asked: Collection[str]) -> list[str]:
    """The models to ask singly beside packed arms, if the coin chose the task."""
    if not _is_checked(job.project, job.task):
        return []
    return [model for arm, model in twins(job.settings.arms).items() if arm in arms and model not in asked]


def offered(policy: Policy, costs: Mapping[str, float]) -> tuple[Policy, Mapping[str, float]]:
    """The policy and the arms that it may ask: of two twins the packed one, or a model would count twice."""
    packed = {model: arm for arm, model in twins(costs).items()}
    if isinstance(policy, Single):
        policy = replace(policy, model=packed.get(policy.model, policy.model))
    return policy, {arm: cost for arm, cost in costs.items() if arm not in packed}


def compared(
    job: Job, plan: Plan, replies: Mapping[str, ModelReply], beside: Mapping[str, ModelReply]
) -> dict[str, dict[str, bool]]:
    """Question → packed arm → whether its vote was that of its model, asked singly.

    Only votes that were asked for independently of other votes count, and only those from a prompt about
    several tasks.

    Args:
        job: the task.
        plan: its plan.
        replies: the replies of the plan's arms.
        beside: the replies of models that the coin chose and the plan does not contain.
    """
    everybody = {**beside, **replies}
    first = frozenset(plan.subset)
    found: dict[str, dict[str, bool]] = defaultdict(dict)
    for arm, model in twins(job.settings.arms).items():
        together, alone = everybody.get(arm), everybody.get(model)
        if together is None or alone is None or not together.together:
            continue
        if not (_is_checked(job.project, job.task) or first >= {arm, model}):
            continue
        for question in together.votes.keys() & alone.votes.keys():
            reward = plan.estimates[question].aggregation.reward
            found[question][arm] = reward(together.votes[question], alone.votes[question]) >= _SAME
    return found


class PackGuard:
    """Knows which packed arms differ too often. Used from one event loop only.

    Args:
        ledger: where the comparisons are.
        readers: the threads that read.
    """

    def __init__(self, ledger: Ledger, readers: Executor) -> None:
        self._reads = GroupedReads.of_equals(ledger, readers, self._read)
        self._known: dict[str, tuple[object, frozenset[str]]] = {}

    async def unpacked(self, job: Job) -> frozenset[str]:
        """The packed arms that a project no longer asks, because of any of its questions."""
        if not any(model.pack for model in job.settings.models):
            return frozenset()
        return await self._reads.read(job.project)

    def _read(self, connection: Connection, project: str) -> frozenset[str]:
        mark = PackChecks(connection, project).mark()
        known = self._known.get(project)
        if known is None or known[0] != mark:
            known = mark, unpacked_arms(PackChecks(connection, project).all())
            self._known[project] = known
        return known[1]


def unpacked_arms(checks: Collection[PackCheck]) -> frozenset[str]:
    """The arms that differ too often on any question."""
    by_question: dict[tuple[str, str, str], list[bool]] = defaultdict(list)
    for check in checks:
        by_question[check.control, check.epoch, check.arm].append(check.agreed)
    return frozenset(arm for (_, _, arm), agreed in by_question.items() if judge_pack(agreed).unpacked)


_NOBODY: Final[Mapping[str, ModelReply]] = MappingProxyType({})
"""No replies."""


class _Asked(Protocol):
    """What votes on a task: the models themselves, or the stage of a batch."""

    async def vote(self, job: Job, arm: str, prompt: TaskPrompt) -> ModelReply:
        """Ask one model; one that fails gives a reply without votes."""
        ...


async def ask_models(
    policy: Policy,
    plan: Plan,
    voters: _Asked,
    job: Job,
    prompt: TaskPrompt,
    *,
    known: Mapping[str, ModelReply],
    known_beside: Mapping[str, ModelReply] = _NOBODY,
    waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> tuple[dict[str, ModelReply], dict[str, ModelReply]]:
    """Ask models as the policy says; those of one stage are asked at the same time.

    A model whose vote fails unexpectedly gives none, as one whose call fails; the others still vote. If the
    budget does not cover a call, the round ends with the votes it has. Without any vote, other models are
    asked, which may be cheaper.

    Args:
        policy: the project's policy.
        plan: its plan.
        voters: the models.
        job: the task.
        prompt: what the models are shown.
        known: the replies that are there already.
        known_beside: those of models that the plan does not know.
        waiting: entered while the task waits for answers.

    Returns:
        The reply of each arm that was asked, and the known ones; and those of models that a coin asked singly
        and that the plan does not know.

    Raises:
        TaskError: no model can vote on the task, such as without a budget.
    """
    replies, beside = dict(known), dict(known_beside)
    refused: BudgetExhaustedError | None = None
    number = 0
    while arms := policy.ask(plan, votes_of(replies), confidences=confidences_of(replies)):
        # All replies are awaited even if one fails unexpectedly, so that no call is left running.
        arms = (*arms, *_to_check(job, arms, {*arms, *replies, *beside}))
        number += 1
        with tracing.stage(number, arms), waiting():
            stage = await asyncio.gather(
                *(voters.vote(job, arm, prompt) for arm in arms), return_exceptions=True
            )
        for arm, reply in zip(arms, stage, strict=True):
            if isinstance(reply, BudgetExhaustedError):
                refused, reply = reply, _unpaid_vote(job, arm, reply)  # noqa: PLW2901
            heard = replies if arm in plan.arms else beside
            heard[arm] = _missing_vote(job, arm, reply) if isinstance(reply, BaseException) else reply
        if refused is not None and any(reply.votes for reply in replies.values()):
            break
    if refused is not None and not any(reply.votes for reply in replies.values()):
        raise refused
    return replies, beside


def votes_of(replies: Mapping[str, ModelReply]) -> dict[str, Mapping[str, str]]:
    """The votes in the replies: arm → question → vote."""
    return {arm: reply.votes for arm, reply in replies.items()}


def confidences_of(replies: Mapping[str, ModelReply]) -> dict[str, Mapping[str, float]]:
    """How sure the models say they are: arm → question → confidence; arms that say nothing are absent."""
    return {arm: reply.confidences for arm, reply in replies.items() if reply.confidences}


def _missing_vote(job: Job, arm: str, error: BaseException) -> ModelReply:
    """Log and count a missing vote. Of an unexpected error only the type is logged: it might quote the task.

    Raises:
        BaseException: the error is not about this model alone.
    """
    if isinstance(error, TaskError) or not isinstance(error, Exception):
        raise error
    code = error.code if isinstance(error, CamvoError) else "internal"
    metrics.votes_missing.labels(model=arm, reason=code).inc()
    _log.error("vote_failed", model=arm, task=job.task, code=code, kind=type(error).__name__)
    return ModelReply({}, 0.0, code)


def _unpaid_vote(job: Job, arm: str, error: BudgetExhaustedError) -> ModelReply:
    metrics.votes_missing.labels(model=arm, reason=error.code).inc()
    _log.debug("vote_not_paid", model=arm, task=job.task, code=error.code)
    return ModelReply({}, 0.0, error.code)


def no_vote_error(job: Job, replies: Mapping[str, ModelReply]) -> NoVoteError:
    """Return the error for a task on which no model voted."""
    where = f"task {job.task}"
    if replies and all(reply.failure == UnusableAnswersError.code for reply in replies.values()):
        return NoUsableAnswerError(
            f"all attempts of the {len(replies)} models that were asked brought unusable answers",
            where=where,
            fix="label it by hand, give the labels hints, or name other models",
        )
    codes = ", ".join(sorted({reply.failure or "" for reply in replies.values()}))
    return NoVoteError(
        f"none of the {len(replies)} models that were asked gave a valid answer ({codes})",
        where=where,
        fix="look the codes up in docs/errors.md",
    )
