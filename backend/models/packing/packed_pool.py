"""Asking packed arms through the ledger: tasks share a prompt, and each keeps its own answer.

The answer to a prompt is split as soon as it comes, and dropped. A task whose part is missing or unreadable
is stored with an empty answer: it is asked about singly, now and whenever the same is asked again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import replace

import structlog

from backend.errors import (
    BadAnswerError,
    BudgetExhaustedError,
    LedgerError,
    ModelError,
    ModelTimeoutError,
    RefusedError,
    StoppingError,
    Usage,
)
from backend.ledger.calls.bookings import CallOutcome
from backend.ledger.database.outages import outlast
from backend.models.caching_pool import OVERTIME
from backend.models.call_ledger import POLL, CallLedger
from backend.models.model_query import CallEstimate, ModelQuery, PaidAnswer
from backend.models.packing.collector import Collector
from backend.models.packing.members import Member, Pack, pack_key
from backend.models.packing.pack_ledger import PackLedger
from backend.models.pool import Pool
from backend.questions.prompts.packs import (
    TYPICAL_ID,
    PackedTask,
    draw_ids,
    packed_messages,
    packed_schema,
    split_answer,
)
from backend.telemetry import metrics

_log = structlog.get_logger(__name__)


class PackedPool:
    """The packed arms of a pool. Used from one event loop only.

    Args:
        pool: the models.
        calls: the ledger's side of this process's calls.
        retries: the number of further calls after a failure that may be temporary.
        clock: unix seconds.
        rng: draws ids and the order of tasks.

    Attributes:
        collector: knows which tasks wait for a prompt, and which may be on their way.
    """

    def __init__(
        self,
        pool: Pool,
        calls: CallLedger,
        *,
        retries: int,
        clock: Callable[[], float],
        rng: random.Random | None = None,
    ) -> None:
        self._pool, self._calls, self._packs = pool, calls, PackLedger(calls, clock)
        self._retries, self._clock = retries, clock
        self._rng = rng or random.SystemRandom()
        self.collector = Collector(self._send, clock)
        self._running: dict[str, asyncio.Future[PaidAnswer]] = {}
        self._held: dict[str, asyncio.Task[None]] = {}

    async def ask(
        self, query: ModelQuery, task: PackedTask, patience: float, usable: Callable[[str], bool]
    ) -> PaidAnswer:
        """Return the packed arm's answer about one task: the one in the ledger, or its part of a new one.

        Args:
            query: what to ask; its prompt and schema are replaced.
            task: the task as it stands in a prompt.
            patience: seconds for waiting, retries and the call.
            usable: whether an answer gives a vote.

        Returns:
            The answer; with empty content if it is missing or unreadable, so that the task has to be asked
            about singly.

        Raises:
            ModelError: the model gave no answer.
            BudgetExhaustedError: the budget does not cover the call.
            StoppingError: the process stops.
        """
        alone = {TYPICAL_ID: task}
        query = replace(query, messages=packed_messages(alone), schema=packed_schema(alone))
        fingerprint = self._pool.fingerprint(query.model, query.messages, query.schema)
        key = pack_key(fingerprint, query.model)
        if (shared := self._running.get(key)) is not None:
            await self._calls.record_use(key, query)
            return replace(await asyncio.shield(shared), cost=0.0)
        future: asyncio.Future[PaidAnswer] = asyncio.get_running_loop().create_future()
        self._running[key] = future
        future.add_done_callback(lambda done: self._remove(key, done))
        member = Member(query, task, key, self._clock() + patience, usable, future)
        with self.collector.preparing():
            try:
                stored = await self._packs.find(member)
            except BaseException as error:
                member.fail(error)
                raise
            if stored is not None:
                metrics.answers_reused.labels(model=query.model).inc()
                member.end(stored)
            else:
                self.collector.add(member, self._pool.pack_size(query.model))
        return await asyncio.shield(future)

    def _remove(self, key: str, future: asyncio.Future[PaidAnswer]) -> None:
        self._running.pop(key, None)
        if not future.cancelled():
            future.exception()  # if nobody waits for it any more, asyncio would log it with its traceback

    async def _send(self, members: list[Member]) -> None:
        """Ask about some tasks in one prompt; whatever happens, each gets an answer or an error."""
        try:
            await outlast(lambda: self._ask([member for member in members if not member.answer.done()]))
        except BaseException as error:
            for member in members:
                if member.key not in self._held:
                    member.fail(error)
            if not isinstance(error, Exception):
                raise

    async def _ask(self, members: list[Member]) -> None:
        """Ask about members until each has its answer.

        Raises:
            BudgetExhaustedError: the budget does not even cover a prompt about one of them.
        """
        try:
            await self._ask_together(members)
        except BudgetExhaustedError:
            if len(members) < 2:
                raise
            middle = len(members) // 2
            await self._ask(members[:middle])
            await self._ask(members[middle:])

    async def _ask_together(self, members: list[Member]) -> None:
        """Ask about members in one prompt, again after a failure that may be temporary."""
        for retry in range(self._retries + 1):
            until = min(member.until for member in members)
            claimed = await self._claimed(members, until)
            if claimed is None:
                return
            mine, call = claimed
            try:
                await self._call(mine, call, until)
                return
            except ModelError as error:
                members = list(mine.members.values())
                name = members[0].query.model
                pause = self._rng.uniform(0.5, 1.0) * 2.0**retry
                hopeless = not error.retry or retry == self._retries or self._pool.resting(name)
                if hopeless or self._clock() + pause >= until:
                    raise
                _log.info("model_retry", model=name, code=error.code, retry=retry + 1)
                await asyncio.sleep(pause)
            finally:
                self._packs.stop_renewing(mine)

    async def _claimed(self, members: list[Member], until: float) -> tuple[Pack, int | None] | None:
        """The prompt about the members that nobody has asked about, with its call; ``None`` without any."""
        self._pool.gate.check()
        if (pack := self._pack(members)) is None:
            return None
        seconds = max(until - self._clock(), 0.0) + OVERTIME
        claimed = await self._packs.claim(pack, self._estimate(pack), until, seconds)
        for member in members:
            if (answer := claimed.stored.get(member.key)) is not None:
                member.end(answer)
            elif member.key not in claimed.mine:
                self._wait_for_other(member)
        return (pack.only(claimed.mine), claimed.call) if claimed.mine else None

    def _pack(self, members: list[Member]) -> Pack | None:
        """The prompt about some members in random order, under random ids; ``None`` if there is none to ask.

        A text with lines of the prompt's own kind for nearly every id leaves no ids: all are asked singly.
        """
        ids = draw_ids([member.task for member in members], self._rng) if members else None
        if ids is None:
            for member in members:
                member.end(PaidAnswer("", 0.0))
            return None
        return Pack(dict(zip(ids, self._rng.sample(members, len(members)), strict=True)))

    def _estimate(self, pack: Pack) -> CallEstimate:
        name, messages = next(iter(pack.members.values())).query.model, pack.messages
        ceiling = self._pool.ceiling(name, messages, pack.schema, tasks=len(pack.members))
        return CallEstimate(ceiling, self._pool.count(name, messages))

    def _wait_for_other(self, member: Member) -> None:
        """Let a member wait for another process, which is asking the same about it."""
        task = self._held[member.key] = asyncio.ensure_future(self._other_answer(member))
        task.add_done_callback(lambda done: self._held.pop(member.key))

    async def _other_answer(self, member: Member) -> None:
        try:
            while self._clock() + POLL < member.until:
                await asyncio.sleep(POLL)
                self._pool.gate.check()
                answer = await outlast(lambda: self._packs.find_or_free(member))
                if answer is not None:
                    return member.end(answer)
            raise ModelTimeoutError(
                f"another process took too long to ask {member.query.model} the same",
                where=member.query.model,
            )
        except BaseException as error:
            member.fail(error)
            if not isinstance(error, Exception):
                raise

    async def _call(self, pack: Pack, call: int | None, until: float) -> None:
        """Send the prompt once, store what came, and give each member its part.

        Raises:
            ModelError: there is no answer, and another attempt may bring one.
        """
        started, name = self._clock(), next(iter(pack.members.values())).query.model
        messages, schema, number = pack.messages, pack.schema, len(pack.members)
        try:
            answer = await self._pool.attempt(
                name, messages, schema, until - started + OVERTIME, tasks=number
            )
        except ModelError as error:
            unread = isinstance(error, BadAnswerError | RefusedError)
            usage = error.usage or Usage(0, 0, self._unknown_cost(pack, error))
            outcome = CallOutcome(None, usage, error.code, self._clock() - started)
            _log.warning("model_failed", model=name, tasks=number, code=error.code, reason=str(error))
            await self._end(pack, call, outcome, {} if unread else None)
            if not unread:
                raise
            return
        except (StoppingError, LedgerError) as error:
            outcome = CallOutcome(None, Usage(0, 0, 0.0), error.code, self._clock() - started)
            await self._end(pack, call, outcome, None)
            raise
        parts = split_answer(answer.content, {key: member.task for key, member in pack.members.items()})
        outcome = CallOutcome(None, answer.usage, None, answer.seconds, version=answer.version)
        await self._end(pack, call, outcome, parts)

    async def _end(
        self, pack: Pack, call: int | None, outcome: CallOutcome, parts: Mapping[str, str] | None
    ) -> None:
        """Store the parts of an answer, id → part, and give them to those who wait.

        ``None`` stands for no answer.
        """
        read = {
            member.key: part if (part := (parts or {}).get(number, "")) and member.usable(part) else ""
            for number, member in pack.members.items()
        }
        await self._packs.settle(pack, call, outcome, None if parts is None else read)
        if parts is None:
            return
        name, shares = next(iter(pack.members.values())).query.model, pack.shares
        self._pool.judge(name, usable=any(read.values()))
        missing = sum(not content for content in read.values())
        metrics.packed_tasks.labels(model=name, outcome="answered").inc(len(read) - missing)
        metrics.packed_tasks.labels(model=name, outcome="missing").inc(missing)
        if missing:
            _log.info("missing_in_pack", model=name, tasks=len(read), missing=missing)
        for member in pack.members.values():
            cost = outcome.usage.cost * shares[member.key]
            member.end(PaidAnswer(read[member.key], cost, version=outcome.version))

    def _unknown_cost(self, pack: Pack, error: ModelError) -> float:
        """Return the cost of a failure without usage, $: the provider may bill a call that timed out."""
        if not isinstance(error, ModelTimeoutError):
            return 0.0
        members = pack.members.values()
        name, number = next(iter(members)).query.model, len(pack.members)
        return self._pool.expected_pack_cost(name, pack.messages, number)
