"""The ledger's side of a call: first the claim and the reserved money, then the answer and the cost.

Everything that must survive a crash happens in two transactions. The first finds a stored answer, or claims
the call and reserves the money for it. The second stores the answer and settles the account.
"""

from __future__ import annotations

import asyncio
import functools
import uuid
from collections.abc import Callable, Sequence

import structlog
from sqlalchemy import Connection

from backend.errors import LedgerError, ModelTimeoutError
from backend.ledger import Writer, answers, claims, deleted_tasks
from backend.ledger.money import spending
from backend.models.model_query import CallEstimate, CallOutcome, ClaimResult, ModelQuery
from backend.telemetry import metrics

_POLL = 0.2
"""Seconds between two reads of the ledger while another process makes the same call."""

_GRACE = 30.0
"""Seconds from the latest possible end of an attempt until its reservation counts as spent."""

LEASE = 15.0
"""Seconds until a claim expires unless it is renewed, so the longest wait after a process crashed."""

_log = structlog.get_logger(__name__)


class CallLedger:
    """One process's model calls in the ledger.

    Args:
        writer: writes to the ledger, which holds answers, claims and money.
        clock: unix seconds.
    """

    def __init__(self, writer: Writer, clock: Callable[[], float]) -> None:
        self._writer, self._clock = writer, clock
        self._owner = uuid.uuid4().hex
        self._claimed: set[str] = set()

    async def renew_claims(self) -> None:
        """Renew the claims of all running attempts until this coroutine is cancelled."""
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

    async def claim(
        self, key: str, query: ModelQuery, estimate: CallEstimate, until: float, seconds: float
    ) -> ClaimResult:
        """Return the stored answer, or claim the call and reserve the money for it.

        While another process makes the same call, this method waits.

        Args:
            key: the hash of the request.
            query: the prompt, its project and its budget.
            estimate: the money to reserve, and the counted tokens.
            until: unix seconds; the latest time to wait for another process.
            seconds: the longest duration of the attempt.

        Raises:
            BudgetExhaustedError: the budget does not cover the call.
            ModelTimeoutError: another process is still making the call.
        """

        def find_or_reserve(connection: Connection) -> ClaimResult | None:
            now = self._clock()
            if (stored := answers.find_by_key(connection, [key]).get(key)) is not None:
                _record_use(connection, key, query)
                return ClaimResult(content=stored.content)
            if not claims.acquire(connection, key, self._owner, now, LEASE):
                return None
            call = spending.reserve(
                connection,
                project=query.project,
                task=query.task,
                model=query.model,
                key=key,
                usd=estimate.ceiling,
                project_usd=query.budget.project_usd,
                day_usd=query.budget.day_usd,
                counted_tokens=estimate.counted_tokens,
                now=now,
                seconds=seconds + _GRACE,
            )
            return ClaimResult(call=call)

        while (result := await self._writer.run(find_or_reserve)) is None:
            if self._clock() + _POLL >= until:
                raise ModelTimeoutError(
                    f"another process took too long to ask {query.model} the same", where=query.model
                )
            await asyncio.sleep(_POLL)
        if result.call is not None:
            self._claimed.add(key)
        return result

    async def settle(self, key: str, query: ModelQuery, call: int | None, outcome: CallOutcome) -> None:
        """Store the answer, settle the account and release the claim.

        Args:
            key: the hash of the request.
            query: the prompt, its project and its budget.
            call: the id from :meth:`claim`.
            outcome: how the attempt ended.
        """
        usage = outcome.usage

        def store_and_settle(connection: Connection) -> None:
            task: tuple[str, int] | None = (query.project, query.task)
            if deleted_tasks.is_deleted(connection, query.project, query.task):
                # Another task may have shared the call and still need the answer.
                task = answers.task_using(connection, key)
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
            if call is not None:
                spending.settle(
                    connection,
                    call,
                    usd=usage.cost,
                    input_tokens=usage.input_tokens,
                    output_tokens=usage.output_tokens,
                    error_code=outcome.code,
                    seconds=outcome.seconds,
                )
            claims.release(connection, key, self._owner)

        await self._writer.run(store_and_settle)
        metrics.model_calls.labels(model=query.model, outcome=outcome.code or "answered").inc()
        metrics.model_dollars.labels(model=query.model).inc(usage.cost)
        metrics.model_seconds.labels(model=query.model).observe(outcome.seconds)

    async def record_use(self, key: str, query: ModelQuery) -> None:
        """Record that the query's task uses an answer that another task pays for."""
        await self._writer.run(lambda connection: _record_use(connection, key, query))

    def stop_renewing(self, key: str) -> None:
        """Stop renewing a claim, because the attempt has ended."""
        self._claimed.discard(key)


def _record_use(connection: Connection, key: str, query: ModelQuery) -> None:
    """Record that the task uses an answer, unless the task is deleted: the record would never be removed."""
    if not deleted_tasks.is_deleted(connection, query.project, query.task):
        answers.link_task(connection, key, query.project, query.task)
