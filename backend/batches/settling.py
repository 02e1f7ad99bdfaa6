"""Settling a job: each line's answer is stored and paid for, whatever happened to the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

import structlog
from sqlalchemy import Connection

from backend.batches.filling import AT_ONCE
from backend.errors import BadAnswerError, ModelError, RefusedError, Usage
from backend.ledger import Writer
from backend.ledger.batches import jobs, lines
from backend.ledger.batches.jobs import BatchJob
from backend.ledger.batches.lines import BatchLine
from backend.ledger.calls import claims
from backend.ledger.calls.bookings import CallOutcome, book_outcome
from backend.models import Pool
from backend.models.batches.provider import BatchProvider, LineResult, ProviderBatch
from backend.questions.prompts.confidences import answer_confidences
from backend.telemetry import metrics

LAPSED: Final = "batch_expired"
"""The code of a line that its provider has not run."""

_NOTHING: Final = Usage(0, 0, 0.0)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Settled:
    """How a line ended, and whether it may be tried again."""

    key: str
    outcome: CallOutcome
    again: bool = False
    tried: bool = True


class Settlement:
    """Settles the lines of jobs.

    Args:
        writer: writes to the ledger.
        pool: reads the answers.
        retries: how often a line is tried again.
        clock: unix seconds.
    """

    def __init__(self, writer: Writer, pool: Pool, retries: int, clock: Callable[[], float]) -> None:
        self._writer, self._pool, self._retries, self._clock = writer, pool, retries, clock

    async def settle(
        self, job: BatchJob, batch: ProviderBatch, provider: BatchProvider, out: Mapping[str, BatchLine]
    ) -> None:
        """Settle all lines of a batch that has ended.

        Args:
            job: the job.
            batch: its batch at the provider.
            provider: where the results are.
            out: custom id → line, for the lines that are still out.

        Raises:
            ModelError: the results cannot be fetched; what was settled stays, the rest is settled later.
        """
        left, ready = dict(out), []
        async for result in provider.results(batch):
            if (line := left.pop(result.custom_id, None)) is None:
                continue  # settled before, or sent by somebody else
            ready.append(self._read(line, result))
            if len(ready) == AT_ONCE:
                await self._book(job, ready)
                ready = []
        ready += [self._lapsed(job, line) for line in left.values()]
        await self._book_all(job, ready)
        at = self._clock()
        await self._writer.persist(
            lambda connection: jobs.change_if(connection, job.id, "out", state="ended", ended_at=at)
        )

    async def give_back(self, job: BatchJob, out: Mapping[str, BatchLine], code: str) -> None:
        """Let all lines of a job be wanted again, because its provider took none of them."""
        back = [
            _Settled(line.key, CallOutcome(None, _NOTHING, code, 0.0), True, False) for line in out.values()
        ]
        await self._book_all(job, back)

    def _lapsed(self, job: BatchJob, line: BatchLine) -> _Settled:
        outcome = CallOutcome(None, _NOTHING, LAPSED, 0.0)
        return _Settled(line.key, outcome, again=True, tried=not job.cancelled)

    def _read(self, line: BatchLine, result: LineResult) -> _Settled:
        """The outcome of a line, at the price of batches."""
        if result.lapsed:
            return _Settled(line.key, CallOutcome(None, _NOTHING, LAPSED, 0.0), again=True)
        try:
            if result.error is not None:
                raise result.error
            answer = self._pool.read_batched(
                line.model, result.response, line.counted_tokens, line.most_input
            )
        except ModelError as error:
            _log.warning("batch_line_failed", model=line.model, task=line.task, code=error.code)
            content = "" if isinstance(error, BadAnswerError | RefusedError) else None
            return _Settled(
                line.key, CallOutcome(content, error.usage or _NOTHING, error.code, 0.0), again=error.retry
            )
        named: Any = [SimpleNamespace(name=name) for name in line.questions]
        sure = answer_confidences(answer.content, answer.tokens, named)
        usage = Usage(answer.input_tokens, answer.output_tokens, answer.cost)
        return _Settled(line.key, CallOutcome(answer.content, usage, None, 0.0, sure, answer.version))

    async def _book_all(self, job: BatchJob, settled: list[_Settled]) -> None:
        for start in range(0, len(settled), AT_ONCE):
            await self._book(job, settled[start : start + AT_ONCE])

    async def _book(self, job: BatchJob, settled: list[_Settled]) -> None:
        booked = await self._writer.persist(partial(self._write, job, settled))
        for line, outcome in booked:
            metrics.model_calls.labels(model=line.model, outcome=outcome.code or "answered").inc()
            metrics.model_dollars.labels(model=line.model).inc(outcome.usage.cost)

    def _write(
        self, job: BatchJob, settled: list[_Settled], connection: Connection
    ) -> list[tuple[BatchLine, CallOutcome]]:
        stored = lines.find(connection, [line.key for line in settled])
        booked = []
        for each in settled:
            line = stored.get(each.key)
            if line is None or line.job != job.id or line.state != "out":
                continue  # settled before
            needed = book_outcome(
                connection,
                line.key,
                line.model,
                (line.project, line.task),
                line.call,
                each.outcome,
                now=self._clock(),
            )
            claims.release(connection, line.key, claims.batch_owner(job.id))
            self._end(connection, line, each, needed=needed)
            booked.append((line, each.outcome))
        return booked

    def _end(self, connection: Connection, line: BatchLine, settled: _Settled, *, needed: bool) -> None:
        outcome = settled.outcome
        if not needed or line.body is None:
            lines.end(connection, line.key, "discarded", outcome.code, outcome.usage.cost)
        elif outcome.content is not None:
            lines.end(connection, line.key, "answered", outcome.code, outcome.usage.cost)
        elif settled.again and (not settled.tried or line.tries < self._retries):
            lines.give_back(connection, line.key, outcome.code, tried=settled.tried)
        else:
            lines.end(connection, line.key, "failed", outcome.code, outcome.usage.cost)
