"""The asking loop: models are asked stage by stage until the policy stops.

Packed arms are compared with their models: a coin chooses tasks, and arms that differ too often go.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import structlog
from sqlalchemy import Connection

from backend.annotation.job import Job, JobQuestion, TaskPrompt, random_draw
from backend.annotation.replies import (
    PASSING,
    LeftOut,
    ModelReply,
    Replies,
    asked_singly,
    packed_reply,
    unusable_code,
    voted_reply,
    votes_in,
)
from backend.errors import BudgetExhaustedError, LedgerFullError, ModelError, TaskError, WithdrawnError
from backend.ledger import LedgerAccess
from backend.ledger.answers import PackChecks
from backend.ledger.database.writer import GroupedReads
from backend.models import Pool
from backend.models.call_ledger import ModelQuery, PaidAnswer
from backend.models.packed_pool import PackedPool
from backend.models.pool import CachingPool
from backend.models.rates.gate import Cancellation, cancellation
from backend.questions.prompts.messages import Messages, image_addresses
from backend.questions.prompts.packs import PackedTask
from backend.telemetry import metrics, tracing
from camvo.errors import CamvoError
from camvo.policies.ensemble import Single
from camvo.policies.policy import Conditions, Plan, Policy
from camvo.student import STUDENT
from camvo.twins import judge_pack, twins
from camvo.typing import Votes

_T = TypeVar("_T")

COIN: Final = 0.02
"""The largest share of packed tasks whose models are asked singly, too."""

_MANY: Final = 100
"""Comparisons of an arm after which the share falls as their number grows: they have shown a large loss by
then, and each costs a prompt about one task, which is several times the price of a packed one."""

_SAME: Final = 0.5
"""Two votes count as equal if one would earn at least this reward where the other is right."""


def _is_checked(job: Job, compared: int = 0) -> bool:
    """Whether the coin chose a task for an arm with so many comparisons; decided by a hash."""
    share = COIN * min(1.0, _MANY / max(compared, 1))
    return random_draw("pack", job.project, job.task) < share * 2**64


def expected_comparisons(tasks: float, before: float) -> float:
    """How many of so many packed tasks the coin is expected to choose for an arm.

    Args:
        tasks: the packed tasks about which the arm is asked.
        before: the comparisons of the arm so far.
    """
    steady = min(tasks, max(_MANY - before, 0.0) / COIN)
    begun = before + COIN * steady
    # From then on a task adds COIN · _MANY / c to the c comparisons, and twice COIN · _MANY to their square.
    return math.sqrt(begun**2 + 2.0 * COIN * _MANY * (tasks - steady)) - before


def compared(job: Job, plan: Plan, replies: Mapping[str, ModelReply]) -> dict[str, dict[str, bool]]:
    """Question → packed arm → whether its vote was that of its model, asked singly.

    Only votes that were asked for independently of other votes count, and only those from a prompt about
    several tasks.
    """
    first = frozenset(plan.subset)
    found: dict[str, dict[str, bool]] = defaultdict(dict)
    for arm, model in twins(job.settings.arms).items():
        together, alone = replies.get(arm), replies.get(model)
        if together is None or alone is None or not together.together:
            continue
        if not (_is_checked(job) or first >= {arm, model}):
            continue
        for question in together.votes.keys() & alone.votes.keys():
            reward = plan.estimates[question].aggregation.reward
            found[question][arm] = reward(together.votes[question], alone.votes[question]) >= _SAME
    return found


@dataclass(frozen=True, slots=True)
class PackedArms:
    """What a project's comparisons say about its packed arms.

    Attributes:
        compared: (arm, control, epoch) → how many comparisons there are.
        unpacked: the arms that are no longer asked, because of any question.
    """

    compared: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    unpacked: frozenset[str] = frozenset()

    def fewest(self, arm: str, questions: Iterable[JobQuestion]) -> int:
        """The comparisons of an arm on that one of some questions which has the fewest."""
        keys = [question.key for question in questions]
        return min([self.compared.get((arm, key.control, key.epoch), 0) for key in keys], default=0)

    @classmethod
    def of(cls, checks: PackChecks) -> PackedArms:
        """Judge the arms of a project by all of its comparisons."""
        judged = {place: judge_pack(agreed) for place, agreed in checks.by_question().items()}
        compared = {place: verdict.compared for place, verdict in judged.items()}
        return cls(compared, frozenset(arm for (arm, _, _), verdict in judged.items() if verdict.unpacked))


class PackGuard:
    """Knows which packed arms differ too often. Used from one event loop only.

    Args:
        access: reads the comparisons.
    """

    def __init__(self, access: LedgerAccess) -> None:
        self._reads = GroupedReads.of_equals(access, self._read)
        self._known: dict[str, tuple[object, PackedArms]] = {}

    async def known(self, job: Job) -> PackedArms:
        """What the comparisons of a job's project say."""
        if not any(model.pack for model in job.settings.models):
            return PackedArms()
        return await self._reads.read(job.project)

    def _read(self, connection: Connection, project: str) -> PackedArms:
        checks = PackChecks(connection, project)
        mark = checks.mark()
        known = self._known.get(project)
        if known is None or known[0] != mark:
            known = self._known[project] = mark, PackedArms.of(checks)
        return known[1]


_LEAST_WAIT: Final = 10.0
_LONGEST_WAIT: Final = 5.0
"""A round waits for the turn of a slow model's call for five times as long as the model's quickest answer
took, and for ten seconds at least: other tasks go on meanwhile."""

_LOOK: Final = 1.0
"""Seconds between two looks whether a call is late."""

_log = structlog.get_logger(__name__)


class Voters:
    """The pool's models, as voters on one task at a time. Used from one event loop only.

    Args:
        queries: asks about one task.
        pool: the models.
        packs: asks about several tasks in a prompt.
        pack_guard: knows which packed arms a project does not ask.
    """

    def __init__(self, queries: CachingPool, pool: Pool, packs: PackedPool, pack_guard: PackGuard) -> None:
        self._queries, self.pool, self._packs = queries, pool, packs
        self.pack_guard = pack_guard

    def expected_costs(
        self, job: Job, prompt: TaskPrompt, unpacked: Collection[str] = ()
    ) -> dict[str, float]:
        """The expected price in $ of each arm that may be asked.

        Resting models are left out unless all of them rest; so is none whose outage the job waits for, and
        not the one model of the policy ``single``. If the prompt has an image, models that cannot be
        shown it are left out. If the task may share a prompt, a model's packed arm takes its place: with
        both, the model would count twice.

        Args:
            job: the task.
            prompt: what models are shown.
            unpacked: the packed arms that are not to be asked.
        """
        names = self._askable(job, prompt)
        batched = frozenset() if job.batching is None else job.batching.models
        awake = [name for name in names if not self._rests(job, name, batched=name in batched)]
        pack = prompt.pack
        shared, own = ((), "") if pack is None else pack.parts()
        costs: dict[str, float] = {}
        for model in job.settings.models:
            name, packed, batch = model.name, model.packed_name, model.name in batched
            if name not in (awake or names):
                continue
            resting = packed is not None and self._rests(job, packed, batched=batch)
            if pack is None or packed is None or packed in unpacked or resting:
                messages, alone = prompt.for_model(name), self.pool[name].model
                costs[name] = alone.cost(messages, batched=batch, schema=prompt.schema)
            else:
                together = self.pool[packed].model
                costs[packed] = together.packed_cost(shared, own, batched=batch, schema=prompt.schema)
        return costs

    def everyone(self, job: Job, prompt: TaskPrompt) -> dict[str, str | None]:
        """All models that can be asked about a prompt, each with the code of the reason why it is down.

        A model that rests after answers without a vote is not down.
        """
        rests = {name: self.pool[name].rests(job.outage_patience) for name in self._askable(job, prompt)}
        return {name: code if code in PASSING else None for name, code in rests.items()}

    def waits(self, job: Job, arms: Iterable[str]) -> dict[str, float]:
        """What the time is worth, in $, by which one more call to each slow arm delays other tasks.

        An arm that is idle delays none: what it can answer meanwhile is free. Of a delay, what exceeds that
        by the quickest arm counts: it is no reason to prefer one of several arms that are equally slow.
        Nobody waits for a provider's batch.

        Args:
            job: the task.
            arms: the arms that may be asked.
        """
        second = job.settings.hour_usd / 3600.0
        if job.batching is not None or not second:
            return {}
        delays = {arm: self.pool[arm].delay for arm in arms}
        least = min(delays.values(), default=0.0)
        return {
            arm: second * (delay - least) if self.pool[arm].busy else 0.0
            for arm, delay in delays.items()
            if delay > least
        }

    def is_late(self, job: Job, arm: str, beside: Iterable[str], *, waited: float, answers: int) -> bool:
        """Whether a round no longer waits until a slow model has room for its call.

        The model answers other tasks meanwhile, and answers would be quick if it had fewer of them. One that
        answers nobody is down, which is another matter.
        """
        caller = self.pool[arm]
        if waited < _LEAST_WAIT or not job.settings.hour_usd or caller.answers == answers:
            return False
        slow = caller.delay > min(self.pool[other].delay for other in beside if other != STUDENT)
        return slow and waited >= _LONGEST_WAIT * caller.shortest

    def left_out(self, job: Job, prompt: TaskPrompt, costs: Collection[str]) -> dict[str, LeftOut]:
        """The models that are left out because they failed.

        Args:
            job: the task.
            prompt: what models are shown.
            costs: the arms that are not left out.
        """
        singly = twins(job.settings.arms)
        offered = {singly.get(arm, arm) for arm in costs}
        if len(offered) == len(job.settings.models):
            return {}
        reasons = {
            name: self.pool[name].rests(job.outage_patience)
            for name in self._askable(job, prompt)
            if name not in offered
        }
        return {
            name: LeftOut(reason, self.pool[name].model.cost(prompt.for_model(name), schema=prompt.schema))
            for name, reason in reasons.items()
            if reason is not None
        }

    def _askable(self, job: Job, prompt: TaskPrompt) -> list[str]:
        """The models that can be asked about a prompt: those that can be shown its images, if it has any."""
        if addresses := image_addresses(prompt.messages):
            return self._shown(job, addresses)
        return [model.name for model in job.settings.models]

    def _rests(self, job: Job, arm: str, *, batched: bool) -> bool:
        """Whether an arm should not be asked now; a provider's batch waits for its model."""
        if batched or arm == job.settings.policy.model:
            return False
        return self.pool[arm].rests(job.outage_patience) is not None

    def preparing(self, *, alone: bool) -> AbstractContextManager[None]:
        """During the block, others wait for this task in case it shares their prompt.

        Args:
            alone: whether it will share none.
        """
        return nullcontext() if alone else self._packs.collector.preparing()

    def waiting(self, prompt: TaskPrompt) -> AbstractContextManager[None]:
        """During the block, the task waits for answers, its own or others', and nobody waits for it."""
        return nullcontext() if prompt.alone else self._packs.collector.waiting()

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
        if prompt.pack is None or (model := twins(job.settings.arms).get(arm)) is None:
            return await self._vote(job, arm, prompt)
        together = await self._packed_vote(prompt.pack, job, arm, prompt)
        if together.votes or together.failure is not None:
            return together
        return asked_singly(together, await self._vote(job, model, prompt))

    async def votes(self, job: Job, asked: Mapping[str, str], prompt: TaskPrompt) -> dict[str, ModelReply]:
        """Ask for the votes of some arms at once, each of the arm that stands beside it.

        A call that nobody pays for gives a reply with the code of the reason. One that failed unexpectedly
        gives none.

        Raises:
            TaskError: models cannot be asked about the task.
        """
        found = await asyncio.gather(
            *(self.vote(job, arm, prompt) for arm in asked.values()), return_exceptions=True
        )
        replies: dict[str, ModelReply] = {}
        for arm, reply in zip(asked, found, strict=True):
            if isinstance(reply, ModelReply):
                replies[arm] = reply
            elif isinstance(reply, BudgetExhaustedError):
                replies[arm] = ModelReply({}, 0.0, reply.code)
            elif isinstance(reply, TaskError) or not isinstance(reply, Exception):
                raise reply
            else:  # the text of an unexpected error might quote the task
                _log.error("vote_failed", model=arm, task=job.task, kind=type(reply).__name__)
        return replies

    async def _packed_vote(self, task: PackedTask, job: Job, arm: str, prompt: TaskPrompt) -> ModelReply:
        """Ask about the task in a prompt with others; without votes and a failure if it was missing."""
        cancellation.set(None)  # other tasks share the call
        query, reader = _query(job, arm, prompt, prompt.messages), _Reader(prompt)
        asking = self._packs.ask(query, task, job.patience, reader.is_usable)
        answer = await _answer_of(asking, arm)
        if isinstance(answer, ModelReply):
            return answer
        return packed_reply(await reader.votes(answer.content), answer)

    async def _vote(self, job: Job, arm: str, prompt: TaskPrompt) -> ModelReply:
        """Ask one model about this task alone."""
        query, reader = _query(job, arm, prompt, prompt.for_model(arm)), _Reader(prompt)
        asking = self._queries.ask(query, job.patience, reader.is_usable)
        answer = await _answer_of(asking, arm)
        if isinstance(answer, ModelReply):
            return answer
        votes = await reader.votes(answer.content)
        code = None if votes else unusable_code(answer.content, cut_off=answer.cut_off)
        # A second answer without a vote says something of the text, and nothing new of the model.
        if not answer.stored and not answer.shared and not (answer.repeats and code):
            self.pool[arm].breaker.judged(code, (job.project, job.task))
        if code is None:
            return voted_reply(votes, answer)
        metrics.votes_missing.labels(model=arm, reason=code).inc()
        _log.info("no_vote", model=arm, task=job.task, code=code)
        return ModelReply({}, answer.cost, code, earlier=answer.earlier)

    def _shown(self, job: Job, addresses: Sequence[str]) -> list[str]:
        names = (model.name for model in job.settings.models)
        return [name for name in names if self.pool[name].model.can_be_shown(addresses)]


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
        job.hurried,
        job.outage_patience is not None,
    )


_LONG: Final = 4096
"""Characters of an answer from which it is read in a thread."""


_LONG_VOTES: Final = 20_000
"""Characters of all votes on a task from which they are weighed in a thread: those of some hundred spans."""


async def weigh(votes: Votes, work: Callable[[], _T]) -> _T:
    """What comes of the votes on a task; of long ones in a thread, so that other tasks go on meanwhile."""
    if sum(len(vote) for answers in votes.values() for vote in answers.values()) < _LONG_VOTES:
        return work()
    return await asyncio.to_thread(work)


class _Reader:
    """Reads the votes in answers to a prompt by question; the latest answer is read once."""

    def __init__(self, prompt: TaskPrompt) -> None:
        self._questions = prompt.questions
        self._latest: tuple[str, dict[str, str]] | None = None

    def read(self, content: str) -> dict[str, str]:
        """The votes in an answer; none if it is unusable."""
        if self._latest is None or self._latest[0] != content:
            self._latest = content, votes_in(content, self._questions)
        return self._latest[1]

    async def votes(self, content: str) -> dict[str, str]:
        """The same; a long answer is read in a thread, so that other tasks go on meanwhile."""
        return self.read(content) if len(content) < _LONG else await asyncio.to_thread(self.read, content)

    def is_usable(self, content: str) -> bool:
        """Whether an answer gives a vote."""
        return bool(self.read(content))


async def _answer_of(asking: Awaitable[PaidAnswer], arm: str) -> PaidAnswer | ModelReply:
    """The answer, or the reply without votes of a model that failed."""
    try:
        return await asking
    except ModelError as error:
        metrics.votes_missing.labels(model=arm, reason=error.code).inc()
        return ModelReply({}, error.usage.cost if error.usage else 0.0, error.code)


class Asking:
    """One task's models, asked at once. A stage of a provider's batch is another way to ask them.

    Args:
        voters: the models.
        job: the task.
        prompt: what the models are shown.

    Attributes:
        replies: the replies that are there before anybody is asked, by arm.
        left_out: the models that cannot be asked now, because they failed.
        bounded: the arms whose expected price is only an upper bound.
        asked: the arms that were asked in earlier stages.
    """

    def __init__(self, voters: Voters, job: Job, prompt: TaskPrompt) -> None:
        self.voters, self.job, self.prompt = voters, job, prompt
        self.replies: dict[str, ModelReply] = {}
        self.left_out: Mapping[str, LeftOut] = {}
        self.bounded: frozenset[str] = frozenset()
        self.asked: frozenset[str] = frozenset()
        self._packed = PackedArms()

    async def offered(self, policy: Policy) -> tuple[Policy, Mapping[str, float]]:
        """The policy, and the expected price in $ of each arm that it may ask."""
        self._packed, packed = await self.voters.pack_guard.known(self.job), twins(self.job.settings.arms)
        unpacked = self._packed.unpacked | {arm for arm, model in packed.items() if model in self.asked}
        costs = self.voters.expected_costs(self.job, self.prompt, unpacked - self.asked)
        self.left_out = self.voters.left_out(self.job, self.prompt, costs)
        pool, schema = self.voters.pool, self.prompt.schema
        arms = {*costs, *self.left_out}
        self.bounded = frozenset(arm for arm in arms if pool[arm].model.is_bounded_only(schema))
        if isinstance(policy, Single):
            arms_of = {model: arm for arm, model in packed.items() if arm in costs}
            policy = replace(policy, model=arms_of.get(policy.model, policy.model))
        return policy, costs

    def limit(self, conditions: Conditions) -> Conditions:
        """The conditions for the rest of the task."""
        return conditions

    def fixed(self, plan: Plan) -> Plan:
        """The plan, as far as an earlier one does not bind it."""
        return plan

    def ended(self) -> None:
        """The task has its round."""

    def failed(self) -> None:
        """The task has no votes."""

    async def vote(self, arm: str) -> ModelReply:
        """Ask one arm; one that fails gives a reply without votes."""
        return await self.voters.vote(self.job, arm, self.prompt)

    async def ask(self, policy: Policy, plan: Plan, known: Mapping[str, ModelReply]) -> Replies:
        """Ask models as the policy says; those of one stage are asked at the same time.

        A model whose vote fails unexpectedly gives none, as one whose call fails; the others still vote. If
        the budget does not cover a call, the round ends with the votes it has. Without any vote, other models
        are asked, which may be cheaper.

        Args:
            policy: the project's policy.
            plan: its plan.
            known: the replies that are there already, beside those of :attr:`replies`.

        Returns:
            The replies of the arms that were asked, and the known ones.

        Raises:
            TaskError: no model can vote on the task, such as without a budget.
            BatchPendingError: answers of a provider's batch have to be bought first.
        """
        arms = {**known, **{arm: reply for arm, reply in self.replies.items() if arm in plan.arms}}
        beside = {arm: reply for arm, reply in self.replies.items() if arm not in arms}
        replies = Replies(arms, beside, self.left_out, self.bounded)
        refused: BudgetExhaustedError | None = None
        number = 0
        while asked := await weigh(
            replies.votes, lambda: policy.ask(plan, replies.votes, confidences=replies.confidences)
        ):
            # All replies are awaited even if one fails unexpectedly, so that no call is left running.
            asked = (*asked, *self._compared_with(asked, heard={*asked, *replies.arms, *replies.beside}))
            number += 1
            with tracing.span(tracing.STAGE) as span, self.voters.waiting(self.prompt):
                span.note(stage_number=number, stage_models=[*asked])
                stage = await self._together(asked, plan, voted=replies.any_vote, spares=policy.spares)
            for arm, reply in zip(asked, stage, strict=True):
                if isinstance(reply, BudgetExhaustedError):
                    refused = reply
                into = replies.arms if arm in plan.arms else replies.beside
                into[arm] = _missing_vote(self.job, arm, reply) if isinstance(reply, BaseException) else reply
            if refused is not None and replies.any_vote:
                break
        if refused is not None and not replies.any_vote:
            raise refused
        for arm in [arm for arm, reply in replies.arms.items() if reply.failure == WithdrawnError.code]:
            del replies.arms[arm]  # nothing was sent to it, so it was not asked
        return replies

    def _compared_with(self, asked: Collection[str], heard: Collection[str]) -> list[str]:
        """The models of packed arms that the coin asks singly, too; those that it has asked before stay."""

        def compared(arm: str, model: str) -> int:
            return 0 if model in self.asked else self._packed.fewest(arm, self.prompt.questions)

        return [
            model
            for arm, model in twins(self.job.settings.arms).items()
            if arm in asked and model not in heard and _is_checked(self.job, compared(arm, model))
        ]

    async def _together(
        self, asked: Sequence[str], plan: Plan, *, voted: bool, spares: bool
    ) -> list[ModelReply | BaseException]:
        """The replies of arms that are asked at the same time, or why there is none.

        Where the policy spares slow arms, the call to one that is late is given up while it waits for its
        turn, once another arm has voted.
        """
        loop = asyncio.get_running_loop()
        patient = not spares or self.job.everyone or self.job.hurried or self.job.batching is not None
        began = loop.time()
        answers = {arm: self.voters.pool[arm].answers for arm in asked}
        given_up = {arm: Cancellation() for arm in asked}
        calls = {arm: asyncio.create_task(self._vote(arm, given_up[arm])) for arm in asked}
        try:
            while (await asyncio.wait(calls.values(), timeout=None if patient else _LOOK))[1]:
                waited = loop.time() - began
                for arm in calls if voted or any(map(_has_voted, calls.values())) else ():
                    late = self.voters.is_late(self.job, arm, plan.arms, waited=waited, answers=answers[arm])
                    if late and not calls[arm].done():
                        given_up[arm].cancel()
        except BaseException:
            for call in calls.values():
                call.cancel()
            raise
        return [call.exception() or call.result() for call in calls.values()]

    async def _vote(self, arm: str, given_up: Cancellation) -> ModelReply:
        """Ask one arm, unless its call is given up before it is sent."""
        cancellation.set(given_up)
        try:
            return await self.vote(arm)
        except WithdrawnError as error:
            metrics.votes_missing.labels(model=arm, reason=error.code).inc()
            return ModelReply({}, 0.0, error.code)


def _has_voted(call: asyncio.Task[ModelReply]) -> bool:
    """Whether a call has ended with a vote."""
    return call.done() and not call.cancelled() and call.exception() is None and bool(call.result().votes)


def _missing_vote(job: Job, arm: str, error: BaseException) -> ModelReply:
    """Log and count a missing vote, of an unexpected error only its type: it might quote the task."""
    if isinstance(error, BudgetExhaustedError):
        metrics.votes_missing.labels(model=arm, reason=error.code).inc()
        _log.debug("vote_not_paid", model=arm, task=job.task, code=error.code)
        return ModelReply({}, 0.0, error.code)
    if isinstance(error, TaskError | LedgerFullError) or not isinstance(error, Exception):
        raise error
    code = error.code if isinstance(error, CamvoError) else "internal"
    metrics.votes_missing.labels(model=arm, reason=code).inc()
    _log.error("vote_failed", model=arm, task=job.task, code=code, kind=type(error).__name__)
    return ModelReply({}, 0.0, code)
