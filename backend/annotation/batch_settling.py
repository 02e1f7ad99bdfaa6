"""Settling a job: each request's answers are stored and paid for, whatever happened to the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

import structlog
from sqlalchemy import Connection

from backend.annotation.batch_filling import AT_ONCE, Requests
from backend.errors import BadAnswerError, CutOffError, ModelError, RefusedError, Usage
from backend.ledger import Writer, money
from backend.ledger.answers import BoughtAnswer, CallOutcome, settle_calls, store_answers
from backend.ledger.batches import BatchJob, BatchLine, Jobs, Lines
from backend.ledger.claims import Claims, batch_owner
from backend.models import Pool
from backend.models.batches.provider import BatchProvider, LineResult, ProviderBatch
from backend.models.pack_ledger import count_parts
from backend.questions.prompts.confidences import answer_confidences
from backend.telemetry import metrics

_LAPSED: Final = "batch_expired"
"""The code of a line that its provider has not run."""

_REQUESTS: Final = 10
"""Requests that one transaction gives back; each may have many lines."""

_NOTHING: Final = Usage(0, 0, 0.0)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Settled:
    """How a request ended.

    Attributes:
        lines: its lines.
        outcome: how it ended.
        contents: key → the answer to each line; ``None`` if there is none.
        again: whether it may be tried again.
        tried: whether it counts as a try.
    """

    lines: Sequence[BatchLine]
    outcome: CallOutcome
    contents: Mapping[str, str] | None = None
    again: bool = False
    tried: bool = True


class Settlement:
    """Settles the requests of jobs.

    Args:
        writer: writes to the ledger.
        pool: reads the answers.
        requests: splits those about several tasks.
        retries: how often a line is tried again.
        clock: unix seconds.
    """

    def __init__(
        self, writer: Writer, pool: Pool, requests: Requests, retries: int, clock: Callable[[], float]
    ) -> None:
        self._writer, self._pool, self._requests = writer, pool, requests
        self._retries, self._clock = retries, clock

    async def settle(
        self,
        job: BatchJob,
        batch: ProviderBatch,
        provider: BatchProvider,
        out: Mapping[str, Sequence[BatchLine]],
    ) -> None:
        """Settle all requests of a batch that has ended.

        Args:
            job: the job.
            batch: its batch at the provider.
            provider: where the results are.
            out: custom id → the lines of a request, for the lines that are still out.

        Raises:
            ModelError: the results cannot be fetched; what was settled stays, the rest is settled later.
        """
        left, ready, failed = dict(out), list[_Settled](), dict[str, LineResult]()
        async for result in provider.results(batch):
            if result.custom_id not in left:
                continue  # settled before, or sent by somebody else
            if result.response is None:
                failed[result.custom_id] = result  # unless another line of this request holds an answer
                continue
            ready.append(self._read(left.pop(result.custom_id), result))
            if sum(len(settled.lines) for settled in ready) >= AT_ONCE:
                await self._book(job, ready)
                ready = []
        ready += [self._read(left.pop(name), result) for name, result in failed.items() if name in left]
        ready += [_lapsed(request, tried=not job.cancelled) for request in left.values()]
        await self._book_all(job, ready)
        at = self._clock()
        await self._writer.persist(
            lambda connection: Jobs(connection).change_if(job.id, "out", state="ended", ended_at=at)
        )

    async def give_back(self, job: BatchJob, out: Mapping[str, Sequence[BatchLine]], code: str) -> None:
        """Let all lines of a job be wanted again, because its provider took none of them."""
        outcome = CallOutcome(None, _NOTHING, code, 0.0)
        back = [_Settled(request, outcome, again=True, tried=False) for request in out.values()]
        await self._book_all(job, back)

    def _read(self, request: Sequence[BatchLine], result: LineResult) -> _Settled:
        """The outcome of a request, at the price of batches."""
        if result.lapsed:
            return _lapsed(request)
        lead = next(line for line in request if line.key == line.lead)
        try:
            if result.error is not None:
                raise result.error
            answer = self._pool[lead.model].read_batched(
                result.response, lead.counted_tokens, lead.most_input, tasks=len(request)
            )
        except Exception as failure:
            error = failure if isinstance(failure, ModelError) else _unreadable(failure, lead)
            _log.warning("batch_line_failed", model=lead.model, task=lead.task, code=error.code)
            cut_off = lead.number is None and isinstance(error, CutOffError)
            outcome = CallOutcome(None, error.usage or _NOTHING, error.code, 0.0, cut_off=cut_off)
            unread = isinstance(error, BadAnswerError | RefusedError)
            contents = self._requests.split(request, "") if unread else None
            return _Settled(request, outcome, contents, again=error.retry)
        contents = self._requests.split(request, answer.content)
        sure: Mapping[str, float] = {}
        if lead.number is None:
            named: Any = [SimpleNamespace(name=name) for name in lead.questions]
            sure = answer_confidences(answer.content, answer.tokens, named, _sent_schema(lead.body))
        else:
            count_parts(lead.model, contents)
        usage = Usage(answer.input_tokens, answer.output_tokens, answer.cost)
        cut_off = lead.number is None and answer.cut_off
        outcome = CallOutcome(None, usage, None, 0.0, sure, answer.version, cut_off)
        return _Settled(request, outcome, contents)

    async def _book_all(self, job: BatchJob, settled: list[_Settled]) -> None:
        for start in range(0, len(settled), _REQUESTS):
            await self._book(job, settled[start : start + _REQUESTS])

    async def _book(self, job: BatchJob, settled: list[_Settled]) -> None:
        booked = await self._writer.persist(partial(self._write, job, settled))
        for model, outcome in booked:
            metrics.model_calls.labels(model=model, outcome=outcome.code or "answered").inc()
            metrics.model_dollars.labels(model=model).inc(outcome.usage.cost)

    def _write(
        self, job: BatchJob, settled: list[_Settled], connection: Connection
    ) -> list[tuple[str, CallOutcome]]:
        stored = Lines(connection).find([line.key for each in settled for line in each.lines])
        booked = []
        for each in settled:
            now = [stored[line.key] for line in each.lines if line.key in stored]
            out = [line for line in now if line.job == job.id and line.state == "out"]
            if not out:
                continue  # settled before
            call = out[0].call
            shares = {} if call is None else money.shares_of(connection, call)
            for line in out:
                self._end(connection, job, line, each, shares.get(line.task, 1.0))
            settle_calls(connection, [(call, each.outcome)])
            booked.append((out[0].model, each.outcome))
        return booked

    def _end(
        self, connection: Connection, job: BatchJob, line: BatchLine, settled: _Settled, share: float
    ) -> None:
        outcome, usd = settled.outcome, settled.outcome.usage.cost * share
        content = None if settled.contents is None else settled.contents[line.key]
        bought = BoughtAnswer(
            key=line.key,
            model=line.model,
            payer=(line.project, line.task),
            content=content,
            outcome=outcome,
            share=share,
        )
        needed = store_answers(connection, [bought], now=self._clock())
        Claims(connection).release([line.key], batch_owner(job.id))
        lines = Lines(connection)
        if not needed or line.body is None:
            lines.end(line.key, "discarded", outcome.code, usd)
        elif content is not None:
            lines.end(line.key, "answered", outcome.code, usd)
        elif settled.again and (not settled.tried or line.tries < self._retries):
            lines.give_back(line.key, outcome.code, tried=settled.tried)
        else:
            lines.end(line.key, "failed", outcome.code, usd)


def _unreadable(error: Exception, lead: BatchLine) -> ModelError:
    """The failure of a line whose answer has another form than any that is known."""
    _log.warning("batch_line_unreadable", model=lead.model, task=lead.task, kind=type(error).__name__)
    return BadAnswerError("sent an answer that cannot be read", where=f"model {lead.model}")


def _sent_schema(body: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The JSON schema in the body of a line that asks about one task, of OpenAI's and Anthropic's form."""
    sent = body or {}
    part = (sent.get("response_format") or {}).get("json_schema") or sent.get("output_format") or {}
    schema = part.get("schema")
    return schema if isinstance(schema, Mapping) else None


def _lapsed(request: Sequence[BatchLine], *, tried: bool = True) -> _Settled:
    return _Settled(request, CallOutcome(None, _NOTHING, _LAPSED, 0.0), again=True, tried=tried)
