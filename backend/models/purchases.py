"""What a call leaves in the ledger: the right to make it and the money for it, then the answer and the bill.

Everything that must survive a crash happens in these two transactions. The first finds the answer or claims
the right to ask and reserves the money; the second stores the answer and settles the account.
"""

from __future__ import annotations

import asyncio
import functools
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import Connection

from backend.errors import LedgerError, ModelTimeoutError, Usage
from backend.ledger import Writer, answers, claims, deleted_tasks
from backend.ledger.money import spending
from backend.questions.prompts.parts import Messages
from backend.settings import BudgetSettings
from backend.telemetry import metrics

_POLL = 0.2
"""Seconds between two looks at the ledger while another process asks the same."""

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
class Price:
    """The most that a call can cost, in $, and the input tokens that were counted in its prompt."""

    ceiling: float
    counted_tokens: int


@dataclass(frozen=True, slots=True)
class Ticket:
    """The outcome of the first transaction: an answer that is there, or the right to ask (a call's id)."""

    content: str | None = None
    call: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one attempt ended: the content to keep (``None``: nothing was paid), its cost, a failure's code."""

    content: str | None
    usage: Usage
    code: str | None
    seconds: float


class Purchases:
    """One process's calls in the ledger.

    Args:
        writer: the process's way to the ledger, where answers, claims and money are.
        clock: unix seconds.
    """

    def __init__(self, writer: Writer, clock: Callable[[], float]) -> None:
        self._writer, self._clock = writer, clock
        self._owner = uuid.uuid4().hex
        self._claimed: set[str] = set()

    async def keep_claims(self) -> None:
        """Renew the claims of the attempts under way, until cancelled."""
        while True:
            await asyncio.sleep(LEASE / 3)
            keys = sorted(self._claimed)
            try:
                if keys:
                    await self._writer.run(functools.partial(self._renew, keys))
            except LedgerError as error:
                _log.error("claims_not_renewed", code=error.code, reason=str(error))

    def _renew(self, keys: Sequence[str], connection: Connection) -> None:
        claims.renew(connection, keys, self._owner, self._clock() + LEASE)

    async def ticket(self, key: str, query: Query, price: Price, until: float, seconds: float) -> Ticket:
        """The answer, or the right to ask and the money for it; waits while another process is asking.

        Args:
            key: the hash of what is asked.
            query: who asks what, and within which budget.
            price: what is to be reserved.
            until: unix seconds until which another process is waited for.
            seconds: how long the attempt may take at the most.

        Raises:
            BudgetExhaustedError: the budget does not cover the call.
            ModelTimeoutError: another process is still asking.
        """

        def first(connection: Connection) -> Ticket | None:
            now = self._clock()
            if (found := answers.find_by_key(connection, [key]).get(key)) is not None:
                _use(connection, key, query)
                return Ticket(content=found.content)
            if not claims.acquire(connection, key, self._owner, now, LEASE):
                return None
            call = spending.reserve(
                connection,
                project=query.project,
                task=query.task,
                model=query.model,
                key=key,
                usd=price.ceiling,
                project_usd=query.budget.project_usd,
                day_usd=query.budget.day_usd,
                counted_tokens=price.counted_tokens,
                now=now,
                seconds=seconds + _GRACE,
            )
            return Ticket(call=call)

        while (ticket := await self._writer.run(first)) is None:
            if self._clock() + _POLL >= until:
                raise ModelTimeoutError(
                    f"another process has been asking {query.model} the same for too long", where=query.model
                )
            await asyncio.sleep(_POLL)
        if ticket.call is not None:
            self._claimed.add(key)
        return ticket

    async def settle(self, key: str, query: Query, ticket: Ticket, outcome: Outcome) -> None:
        """Keep the answer, settle the account, let go of the claim."""
        usage = outcome.usage

        def second(connection: Connection) -> None:
            task: tuple[str, int] | None = (query.project, query.task)
            if deleted_tasks.is_deleted(connection, query.project, query.task):
                task = answers.task_using(
                    connection, key
                )  # one that shared the call, and still wants the answer
            if outcome.content is not None and task is not None:
                stored = answers.StoredAnswer(
                    key=key,
                    model=query.model,
                    content=outcome.content,
                    input_tokens=usage.input_tokens,
                    output_tokens=usage.output_tokens,
                    cost=usage.cost,
                    seconds=outcome.seconds,
                )
                answers.store(connection, stored, *task, now=self._clock())
            if ticket.call is not None:
                spending.settle(
                    connection,
                    ticket.call,
                    usd=usage.cost,
                    input_tokens=usage.input_tokens,
                    output_tokens=usage.output_tokens,
                    error_code=outcome.code,
                    seconds=outcome.seconds,
                )
            claims.release(connection, key, self._owner)

        await self._writer.run(second)
        metrics.model_calls.labels(model=query.model, outcome=outcome.code or "answered").inc()
        metrics.model_dollars.labels(model=query.model).inc(usage.cost)
        metrics.model_seconds.labels(model=query.model).observe(outcome.seconds)

    async def share(self, key: str, query: Query) -> None:
        """Note that a task uses the answer that another one is paying for, as long as it is kept."""
        await self._writer.run(lambda connection: _use(connection, key, query))

    def forget(self, key: str) -> None:
        """Renew the claim no more: the attempt is over, however it ended."""
        self._claimed.discard(key)


def _use(connection: Connection, key: str, query: Query) -> None:
    """Note that the task uses an answer, unless it is gone: nobody would ever take the note back."""
    if not deleted_tasks.is_deleted(connection, query.project, query.task):
        answers.link_task(connection, key, query.project, query.task)
