"""Asking packed arms through the ledger: tasks share a prompt, and each keeps its own answer.

The answer to a prompt is split as soon as it arrives, and then discarded. A task whose part is missing or
unreadable is stored with an empty answer: it is asked about singly, now and whenever the same is asked again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, TypeAlias

import structlog

from backend.errors import (
    BadAnswerError,
    BudgetExhaustedError,
    LedgerError,
    ModelError,
    ModelTimeoutError,
    RefusedError,
    StoppingError,
    UnavailableError,
    Usage,
    WithdrawnError,
)
from backend.ledger.answers import CallOutcome
from backend.ledger.database.writer import outlast
from backend.ledger.money import Purse
from backend.models.call_ledger import POLL, CallEstimate, CallLedger, ModelQuery, PaidAnswer
from backend.models.failures import Turn
from backend.models.pack_ledger import (
    MOST_TOKENS,
    Member,
    Pack,
    PackLedger,
    count_parts,
    own_tokens,
    pack_key,
)
from backend.models.pool import OVERTIME, Pool, SharedCalls
from backend.questions.prompts.packs import PackedTask
from backend.telemetry import metrics

_QUIET: Final = 0.1
"""Seconds without a new task after which prompts are sent, if no other task is being prepared."""

_LONGEST: Final = 2.0
"""Seconds that a task waits for others at most."""

_SHARE_OF_PATIENCE: Final = 0.05
"""A task in a hurry waits for others no longer than this share of its patience."""

_BinKey: TypeAlias = tuple[str, str, str, Purse | None, bool]
"""Project, arm, system message, who pays, and whether outages are waited for."""


@dataclass(slots=True, eq=False)
class _Bin:
    """The tasks that wait for one prompt, and when it is sent at the latest."""

    latest: float
    members: list[Member] = field(default_factory=list)
    tokens: int = 0
    timer: asyncio.TimerHandle | None = None


class _Collector:
    """The bins of one process. Used from one event loop only.

    Tasks share a bin if they are of one project, one arm, and one system message: the same questions and
    instructions. Code that knows that a task may soon enter a bin announces it (:meth:`preparing`). Soon
    after the last such task, all bins are sent. Otherwise they wait for a bounded time.
    """

    def __init__(self, send: Callable[[list[Member]], Awaitable[None]]) -> None:
        self._send = send
        self._bins: dict[_BinKey, _Bin] = {}
        self._under_way: set[asyncio.Task[None]] = set()
        self._on_their_way = 0
        self._quiet: asyncio.TimerHandle | None = None

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """During the block, a task may be on its way into a bin."""
        self._on_their_way += 1
        try:
            yield
        finally:
            self._on_their_way -= 1
            self._look_soon()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """During the block, a task that is prepared waits for answers, so it will not enter a bin."""
        self._on_their_way -= 1
        if self._bins:
            self._look_soon()
        try:
            yield
        finally:
            self._on_their_way += 1

    def add(self, member: Member, most: int) -> None:
        """Let a task wait for others, for a prompt about at most ``most`` tasks."""
        query = member.query
        key = (query.project, query.model, member.task.system, query.purse, query.waits)
        waiting, tokens = self._bins.get(key), own_tokens(member.task)
        if waiting is not None and waiting.tokens + tokens > MOST_TOKENS:
            self._flush(key)
            waiting = None
        loop = asyncio.get_running_loop()
        patience = min(max(member.until - monotonic(), 0.0) * _SHARE_OF_PATIENCE, _LONGEST)
        if waiting is None:
            waiting = self._bins[key] = _Bin(loop.time() + patience)
        else:
            waiting.latest = min(waiting.latest, loop.time() + patience)
        waiting.members.append(member)
        waiting.tokens += tokens
        if waiting.timer is not None:
            waiting.timer.cancel()
        if len(waiting.members) >= most:
            self._flush(key)
        else:
            waiting.timer = loop.call_at(waiting.latest, self._flush, key)

    def _look_soon(self) -> None:
        if self._quiet is not None:
            self._quiet.cancel()
        self._quiet = asyncio.get_running_loop().call_later(_QUIET, self._send_if_idle)

    def _send_if_idle(self) -> None:
        if not self._on_their_way:
            for key in list(self._bins):
                self._flush(key)

    def _flush(self, key: _BinKey) -> None:
        waiting = self._bins.pop(key)
        if waiting.timer is not None:
            waiting.timer.cancel()
        task = asyncio.ensure_future(self._send(waiting.members))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)


_log = structlog.get_logger(__name__)


class PackedPool:
    """The packed arms of a pool. Used from one event loop only.

    Args:
        pool: the models.
        calls: the ledger's side of this process's calls.
        retries: the number of further calls after a failure that may be temporary.

    Attributes:
        collector: knows which tasks wait for a prompt, and which are still being prepared.
    """

    def __init__(self, pool: Pool, calls: CallLedger, *, retries: int) -> None:
        self._pool, self._calls, self._packs = pool, calls, PackLedger(calls)
        self._retries, self._rng = retries, random.SystemRandom()
        self.collector = _Collector(self._send)
        self._shared = SharedCalls(pool, calls)
        self._held: dict[str, asyncio.Task[None]] = {}

    async def ask(
        self, query: ModelQuery, task: PackedTask, patience: float, usable: Callable[[str], bool]
    ) -> PaidAnswer:
        """Return the packed arm's answer about one task: the one in the ledger, or its part of a new one.

        Args:
            query: what to ask; its prompt and schema are those about one task, and are not sent.
            task: the task as written in a prompt.
            patience: seconds for waiting and retries; for the call itself, too, if the query is hurried.
            usable: whether an answer gives a vote.

        Returns:
            The answer; with empty content if it is missing or unreadable, so that the task has to be asked
            about singly.

        Raises:
            ModelError: the model gave no answer.
            BudgetExhaustedError: the budget does not cover the call.
            StoppingError: the process stops.
        """
        key = pack_key(self._pool, query.model, task)
        if (shared := await self._shared.answer(key, query, patience)) is not None:
            return shared
        future: asyncio.Future[PaidAnswer] = asyncio.get_running_loop().create_future()
        member = Member(query, task, key, monotonic() + patience, usable, future)
        self._shared.begin(key, query, future)
        with self.collector.preparing():
            try:
                stored = await self._packs.find(member)
            except asyncio.CancelledError:  # this task's alone: those that share the call ask for themselves
                member.fail(WithdrawnError("the task that asked first was given up"))
                raise
            except BaseException as error:
                member.fail(error)
                raise
            if stored is not None:
                metrics.answers_reused.labels(model=query.model).inc()
                member.end(stored)
            else:
                self.collector.add(member, self._pool[query.model].pack_size)
        return await asyncio.shield(future)

    async def _send(self, members: list[Member]) -> None:
        """Ask about some tasks in one prompt; whatever happens, each gets an answer or an error.

        A budget may cover smaller prompts. And one text may be why a prompt fails again and again, so members
        that wait for outages are then asked about in smaller ones, too.
        """
        try:
            await outlast(lambda: self._ask_together(members))
        except BaseException as error:
            middle = len(members) // 2
            if middle and self._may_be_divided(members[0], error):
                await self._send(members[:middle])
                await self._send(members[middle:])
                return
            for member in members:
                if member.key not in self._held:
                    member.fail(error)
            if not isinstance(error, Exception):
                raise

    def _may_be_divided(self, first: Member, error: BaseException) -> bool:
        """Whether smaller prompts may succeed where one about several tasks, this the first, has failed."""
        if not isinstance(error, ModelTimeoutError | UnavailableError):
            return isinstance(error, BudgetExhaustedError)
        left = max(first.until - monotonic(), 0.0)
        return first.query.waits and not self._pool[first.query.model].outage.hopeless(left)

    async def _ask_together(self, members: list[Member]) -> None:
        """Ask in one prompt about the members that nobody asks about yet, until each has its answer."""
        members = [each for each in members if each.key not in self._held and not each.answer.done()]
        if not members:
            return
        query, until = members[0].query, min(member.until for member in members)
        waits = max(until - monotonic(), 0.0) if query.waits else None
        caller, several = self._pool[query.model], len(members) > 1
        tries = caller.tries(waits, self._retries, until, self._rng, divisible=several)
        while True:
            self._pool.gate.check()
            async with tries.turn() as turn:
                claimed = await self._claimed(members, until)
                if claimed is None:
                    return
                mine, call = claimed
                try:
                    await self._call(mine, call, until, turn)
                    return
                except ModelError as error:
                    failure = error
                finally:
                    self._packs.stop_renewing(mine)
            members = list(mine.members.values())
            await tries.pause(failure, turn)

    async def _claimed(self, members: list[Member], until: float) -> tuple[Pack[Member], int | None] | None:
        """The prompt about the members that nobody has asked about, with its call; ``None`` without any."""
        if (pack := Pack.drawn(members, self._rng)) is None:
            return None
        seconds = self._pool[members[0].query.model].model.settings.timeout
        claimed = await self._packs.claim(pack, self._estimate(pack), until, seconds)
        for member in members:
            if (answer := claimed.stored.get(member.key)) is not None:
                member.end(answer)
            elif member.key not in claimed.mine:
                self._wait_for_other(member)
        return (pack.only(claimed.mine), claimed.call) if claimed.mine else None

    def _estimate(self, pack: Pack[Member]) -> CallEstimate:
        name, messages = next(iter(pack.members.values())).query.model, pack.messages
        ceiling = self._pool[name].model.for_tasks(len(pack.members)).ceiling(messages, pack.schema)
        return CallEstimate(ceiling, self._pool[name].model.count(messages))

    def _wait_for_other(self, member: Member) -> None:
        """Let a member wait for another process, which is asking the same about it."""
        task = self._held[member.key] = asyncio.ensure_future(self._other_answer(member))
        task.add_done_callback(lambda done: self._held.pop(member.key))

    async def _other_answer(self, member: Member) -> None:
        try:
            while monotonic() + POLL < member.until:
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

    async def _call(self, pack: Pack[Member], call: int | None, until: float, turn: Turn | None) -> None:
        """Send the prompt once, store the answer, and give each member its part."""
        started, name = monotonic(), next(iter(pack.members.values())).query.model
        messages, schema, number = pack.messages, pack.schema, len(pack.members)
        hurried = any(member.query.hurried for member in pack.members.values())
        try:
            answer = await self._pool[name].attempt(
                messages, schema, until - started + OVERTIME, tasks=number, hurried=hurried, turn=turn
            )
        except ModelError as error:
            unread = isinstance(error, BadAnswerError | RefusedError)
            self._pool[name].breaker.unread(error, _tasks_of(pack))
            usage = self._pool[name].failure_usage(messages, error, tasks=number)
            outcome = CallOutcome(None, usage, error.code, monotonic() - started)
            _log.warning("model_failed", model=name, tasks=number, code=error.code, reason=str(error))
            await self._end(pack, call, outcome, pack.split("") if unread else None)
            if not unread:
                raise
            return
        except (StoppingError, LedgerError) as error:
            outcome = CallOutcome(None, Usage(0, 0, 0.0), error.code, monotonic() - started)
            await self._end(pack, call, outcome, None)
            raise
        outcome = CallOutcome(None, answer.usage, None, answer.seconds, version=answer.version)
        await self._end(pack, call, outcome, pack.split(answer.content))

    async def _end(
        self, pack: Pack[Member], call: int | None, outcome: CallOutcome, parts: Mapping[str, str] | None
    ) -> None:
        """Store the parts of an answer, key → part, and give them to those who wait.

        ``None`` means that there is no answer.
        """
        if parts is None:
            await self._packs.settle(pack, call, outcome, None)
            return
        members = pack.members.values()
        read = {
            member.key: part if (part := parts[member.key]) and member.usable(part) else ""
            for member in members
        }
        await self._packs.settle(pack, call, outcome, read)
        name, shares = next(iter(members)).query.model, pack.shares
        if outcome.code is None:
            code = None if any(read.values()) else BadAnswerError.code
            self._pool[name].breaker.judged(code, _tasks_of(pack))
        count_parts(name, read)
        for member in members:
            cost = outcome.usage.cost * shares[member.key]
            member.end(PaidAnswer(read[member.key], cost, version=outcome.version))


def _tasks_of(pack: Pack[Member]) -> frozenset[tuple[str, int]]:
    return frozenset(member.query.payer for member in pack.members.values())
