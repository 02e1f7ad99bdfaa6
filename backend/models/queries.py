"""One prompt to one model: claimed, paid for once, kept for ever.

An answer that has arrived is never paid for again, by no process, whatever happens to the task it was asked
for (``purchases.py``).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from backend.errors import BudgetExhaustedError, ModelError, ModelTimeoutError, Usage
from backend.models.pool import Pool
from backend.models.purchases import Outcome, Price, Purchases, Query, Ticket
from backend.telemetry import metrics

_OVERTIME = 30.0
"""Seconds that an attempt under way may go on after patience has ended: what is paid for is to be kept."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model answered, and what this query paid for it in $ (0 when the answer was there)."""

    content: str
    cost: float


class Queries:
    """Asks models through the pool, and the ledger before the pool.

    Args:
        pool: the models.
        purchases: the process's calls in the ledger.
        retries: further attempts after a failure that another attempt may mend.
        clock: unix seconds.
    """

    def __init__(
        self,
        pool: Pool,
        purchases: Purchases,
        *,
        retries: int,
        clock: Callable[[], float],
    ) -> None:
        self._pool, self._purchases = pool, purchases
        self._retries, self._clock = retries, clock
        self._under_way: dict[str, asyncio.Task[Reply]] = {}

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
                await self._purchases.share(key, query)
                return Reply((await asyncio.shield(shared)).content, 0.0)
            await asyncio.sleep(0)  # the failed call leaves the table in the loop's next turn
        task = asyncio.create_task(self._ask(key, query, self._clock() + patience))
        self._under_way[key] = task
        task.add_done_callback(lambda _: self._under_way.pop(key, None))
        return await asyncio.shield(task)

    async def _ask(self, key: str, query: Query, until: float) -> Reply:
        price = Price(
            self._pool.ceiling(query.model, query.messages, query.schema),
            self._pool.count(query.model, query.messages),
        )
        for attempt in range(self._retries + 1):
            seconds = max(until - self._clock(), 0.0) + _OVERTIME
            ticket = await self._purchases.ticket(key, query, price, until, seconds)
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
                self._purchases.forget(key)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _attempt(self, key: str, query: Query, ticket: Ticket, until: float) -> Reply:
        """One paid attempt. A failure that was paid for all the same is kept as an empty answer: no vote."""
        started = self._clock()
        try:
            answer = await self._pool.attempt(
                query.model, query.messages, query.schema, until - started + _OVERTIME
            )
        except ModelError as error:
            paid = error.usage is not None and error.usage.output_tokens > 0
            outcome = Outcome(
                content="" if paid else None,
                usage=error.usage or Usage(0, 0, self._unknown_cost(query, error)),
                code=error.code,
                seconds=self._clock() - started,
            )
            await self._purchases.settle(key, query, ticket, outcome)
            _log.warning(
                "model_failed", model=query.model, task=query.task, code=error.code, reason=str(error)
            )
            raise
        usage = Usage(answer.input_tokens, answer.output_tokens, answer.cost)
        await self._purchases.settle(key, query, ticket, Outcome(answer.content, usage, None, answer.seconds))
        return Reply(answer.content, answer.cost)

    def _unknown_cost(self, query: Query, error: ModelError) -> float:
        """What to book for a failure without usage, in $: one that timed out may be billed all the same."""
        return self._pool.cost(query.model, query.messages) if isinstance(error, ModelTimeoutError) else 0.0
