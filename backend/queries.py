"""One prompt to one model: claimed, paid for once, kept for ever.

Everything that must survive a crash happens in two ledger transactions. The first finds the answer or claims
the right to ask and reserves the money; the second stores the answer and settles the account. An answer that
has arrived is never paid for again, by no process, whatever happens to the task it was asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import Connection

from backend import metrics
from backend.ledger import Writer, answers, deleted_tasks, money
from backend.llms import Pool
from backend.llms.parts import Messages
from backend.settings import BudgetSettings
from camvo.errors import BudgetExhaustedError, LedgerError, ModelError, ModelTimeoutError, Usage

_POLL = 0.2
"""Seconds between two looks at the ledger while another process asks the same."""

_OVERTIME = 30.0
"""Seconds that an attempt under way may go on after patience has ended: what is paid for is to be kept."""

_GRACE = 30.0
"""Seconds after the last moment of an attempt until its reservation counts as spent."""

LEASE = 15.0
"""Seconds that a claim lasts unless it is renewed: after a crash others need not wait longer."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked, of whom, for which task, and within which budget."""

    project: str
    task: int
    model: str
    messages: Messages
    schema: Mapping[str, Any]
    budget: BudgetSettings


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model answered, and what this query paid for it in $ (0 when the answer was there)."""

    content: str
    cost: float


@dataclass(frozen=True, slots=True)
class _Ticket:
    """The outcome of the first transaction: an answer that is there, or the right to ask (a call's id)."""

    content: str | None = None
    call: int | None = None


@dataclass(frozen=True, slots=True)
class _Outcome:
    """How one attempt ended: the content to keep (``None``: nothing was paid), its cost, a failure's code."""

    content: str | None
    usage: Usage
    code: str | None
    seconds: float


class Queries:
    """Asks models through the pool, and the ledger before the pool.

    Args:
        pool: the models.
        writer: the process's way to the ledger, where answers, claims and money are.
        retries: further attempts after a failure that another attempt may mend.
        clock: unix seconds.
    """

    def __init__(
        self,
        pool: Pool,
        writer: Writer,
        *,
        retries: int,
        clock: Callable[[], float],
    ) -> None:
        self._pool, self._writer = pool, writer
        self._retries, self._clock = retries, clock
        self._owner = uuid.uuid4().hex
        self._under_way: dict[str, asyncio.Task[Reply]] = {}
        self._claimed: set[str] = set()

    async def keep_claims(self) -> None:
        """Renew the claims of the attempts under way, until cancelled."""
        while True:
            await asyncio.sleep(LEASE / 3)
            keys, until = sorted(self._claimed), self._clock() + LEASE
            try:
                if keys:
                    await self._writer.run(
                        functools.partial(answers.renew, keys=keys, owner=self._owner, until=until)
                    )
            except LedgerError as error:
                _log.error("claims_not_renewed", code=error.code, reason=str(error))

    async def ask(self, query: Query, patience: float) -> Reply:
        """The model's answer; identical queries under way in this process share one call.

        Args:
            query: what to ask.
            patience: seconds that retries and waiting for another process may take in all.

        Raises:
            ModelError: the model gave no answer.
            BudgetExhaustedError: the budget does not cover the call.
        """
        key = self._pool.fingerprint(query.model, query.messages, query.schema)
        while (shared := self._under_way.get(key)) is not None:
            # Whoever asked first pays. Should that be another project without money left, we ask ourselves.
            with contextlib.suppress(BudgetExhaustedError):
                content = (await asyncio.shield(shared)).content
                await self._writer.run(lambda c: answers.use(c, key, query.project, query.task))
                return Reply(content, 0.0)
            await asyncio.sleep(0)  # the failed call leaves the table in the loop's next turn
        task = asyncio.create_task(self._ask(key, query, self._clock() + patience))
        self._under_way[key] = task
        task.add_done_callback(lambda _: self._under_way.pop(key, None))
        return await asyncio.shield(task)

    async def _ask(self, key: str, query: Query, until: float) -> Reply:
        for attempt in range(self._retries + 1):
            ticket = await self._ticket(key, query, until)
            if ticket.content is not None:
                metrics.answers_reused.labels(model=query.model).inc()
                return Reply(ticket.content, 0.0)
            try:
                return await self._attempt(key, query, ticket, until)
            except ModelError as error:
                pause = random.uniform(0.5, 1.0) * 2.0**attempt  # noqa: S311 - jitter, not a secret
                hopeless = not error.retry or attempt == self._retries or self._pool.resting(query.model)
                if hopeless or self._clock() + pause >= until:
                    raise
                _log.info("model_retry", model=query.model, code=error.code, attempt=attempt + 1)
                await asyncio.sleep(pause)
            finally:
                self._claimed.discard(key)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _ticket(self, key: str, query: Query, until: float) -> _Ticket:
        ceiling = self._pool.ceiling(query.model, query.messages, query.schema)
        counted = self._pool.count(query.model, query.messages)
        seconds = max(until - self._clock(), 0.0) + _OVERTIME + _GRACE

        def first(connection: Connection) -> _Ticket | None:
            now = self._clock()
            if (found := answers.find(connection, [key]).get(key)) is not None:
                answers.use(connection, key, query.project, query.task)
                return _Ticket(content=found.content)
            if not answers.claim(connection, key, self._owner, now, LEASE):
                return None
            call = money.reserve(
                connection,
                project=query.project,
                task=query.task,
                model=query.model,
                key=key,
                usd=ceiling,
                project_usd=query.budget.project_usd,
                day_usd=query.budget.day_usd,
                counted_tokens=counted,
                now=now,
                seconds=seconds,
            )
            return _Ticket(call=call)

        while (ticket := await self._writer.run(first)) is None:
            if self._clock() + _POLL >= until:
                raise ModelTimeoutError(
                    f"another process has been asking {query.model} the same for too long", where=query.model
                )
            await asyncio.sleep(_POLL)
        if ticket.call is not None:
            self._claimed.add(key)
        return ticket

    async def _attempt(self, key: str, query: Query, ticket: _Ticket, until: float) -> Reply:
        """One paid attempt. A failure that was paid for all the same is kept as an empty answer: no vote."""
        started = self._clock()
        try:
            answer = await self._pool.attempt(
                query.model, query.messages, query.schema, until - started + _OVERTIME
            )
        except ModelError as error:
            paid = error.usage is not None and error.usage.output_tokens > 0
            outcome = _Outcome(
                content="" if paid else None,
                usage=error.usage or Usage(0, 0, self._unknown_cost(query, error)),
                code=error.code,
                seconds=self._clock() - started,
            )
            await self._finish(key, query, ticket, outcome)
            _log.warning(
                "model_failed", model=query.model, task=query.task, code=error.code, reason=str(error)
            )
            raise
        usage = Usage(answer.input_tokens, answer.output_tokens, answer.cost)
        await self._finish(key, query, ticket, _Outcome(answer.content, usage, None, answer.seconds))
        return Reply(answer.content, answer.cost)

    def _unknown_cost(self, query: Query, error: ModelError) -> float:
        """What to book for a failure without usage, in $: one that timed out may be billed all the same."""
        return self._pool.cost(query.model, query.messages) if isinstance(error, ModelTimeoutError) else 0.0

    async def _finish(self, key: str, query: Query, ticket: _Ticket, outcome: _Outcome) -> None:
        """The second transaction: keep the answer, settle the account, let go of the claim."""
        usage = outcome.usage

        def second(connection: Connection) -> None:
            deleted = deleted_tasks.contain(connection, query.project, query.task)
            if outcome.content is not None and not deleted:
                stored = answers.StoredAnswer(
                    key=key,
                    model=query.model,
                    content=outcome.content,
                    input_tokens=usage.input_tokens,
                    output_tokens=usage.output_tokens,
                    cost=usage.cost,
                    seconds=outcome.seconds,
                )
                answers.keep(connection, stored, query.project, query.task, now=self._clock())
            if ticket.call is not None:
                money.settle(
                    connection,
                    ticket.call,
                    usd=usage.cost,
                    input_tokens=usage.input_tokens,
                    output_tokens=usage.output_tokens,
                    error_code=outcome.code,
                    seconds=outcome.seconds,
                )
            answers.release(connection, key, self._owner)

        await self._writer.run(second)
        metrics.model_calls.labels(model=query.model, outcome=outcome.code or "answered").inc()
        metrics.model_dollars.labels(model=query.model).inc(usage.cost)
        metrics.model_seconds.labels(model=query.model).observe(outcome.seconds)
