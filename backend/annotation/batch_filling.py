"""Jobs of providers' batches: filled with what tasks wait for, sent, and settled when they are done."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

import structlog
from sqlalchemy import Connection

from backend.errors import BadAnswerError, BudgetExhaustedError, CutOffError, ModelError, RefusedError, Usage
from backend.ledger import Writer, answers, money, projects
from backend.ledger.answers import BoughtAnswer, CallOutcome, settle_calls, store_answers
from backend.ledger.batches import BatchJob, BatchLine, Jobs, Lines
from backend.ledger.claims import Claims, batch_owner
from backend.ledger.database.statements import now, portions
from backend.ledger.money import Purse
from backend.models import Pool
from backend.models.batches.provider import BatchProvider, Limits, LineResult, ProviderBatch, provider_body
from backend.models.pack_ledger import MOST_TOKENS, Pack, count_parts, own_tokens
from backend.questions.naming import answer_key
from backend.questions.prompts.confidences import answer_confidences
from backend.questions.prompts.packs import PackedTask
from backend.settings import BudgetSettings
from backend.telemetry import metrics


@dataclass(frozen=True, slots=True)
class _BatchRequest:
    """One request."""

    lines: Sequence[BatchLine]
    shares: Mapping[int, float]

    @property
    def lead(self) -> BatchLine:
        """The first line."""
        return self.lines[0]


@dataclass(frozen=True, slots=True)
class _PackedLine:
    """A line of a packed arm, and its task as written in the prompt."""

    line: BatchLine
    task: PackedTask

    @property
    def key(self) -> str:
        return self.line.key


class Requests:
    """Makes requests of lines."""

    def __init__(self, pool: Pool) -> None:
        self._pool, self._rng = pool, random.SystemRandom()

    def pack_size(self, arm: str) -> int:
        """The most lines of a request."""
        return self._pool[arm].pack_size

    def bundle(self, lines: Sequence[BatchLine], most: int | None = None) -> list[_BatchRequest]:
        """Put lines of one arm into requests.

        Lines share a request if their arm is packed, and they ask the same questions with the same
        instructions. Lines whose texts leave no ids for a prompt are left out.
        """
        if not lines or self.pack_size(lines[0].model) == 1:
            return [_BatchRequest([line], {}) for line in lines]
        groups = _grouped(lines, most or self.pack_size(lines[0].model))
        requests = (self._packed(group) for group in groups)
        return [request for request in requests if request is not None]

    def body(self, lines: Sequence[BatchLine]) -> Mapping[str, Any] | None:
        """The body of a request that a job has taken; ``None`` if all its tasks were deleted."""
        left = [line for line in lines if line.body is not None]
        if not left or left[0].number is None:
            return left[0].body if left else None
        packed = {str(line.number): _PackedLine(line, PackedTask.from_json(line.body or {})) for line in left}
        return self._body(left[0].model, Pack(dict(sorted(packed.items()))))

    def split(self, lines: Sequence[BatchLine], content: str) -> dict[str, str]:
        """Key → the answer to each line of a request; empty if it is missing or unreadable."""
        if lines[0].number is None:
            return {lines[0].key: content}
        asked = {line.key: map(answer_key, line.questions) for line in lines}
        forms = {key: PackedTask("", {}, {each: {} for each in keys}) for key, keys in asked.items()}
        return Pack({str(line.number): _PackedLine(line, forms[line.key]) for line in lines}).split(content)

    def _packed(self, group: Sequence[_PackedLine]) -> _BatchRequest | None:
        if (pack := Pack.drawn(group, self._rng)) is None:
            return None
        arm, messages, schema = group[0].line.model, pack.messages, pack.schema
        numbers = list(pack.members)
        first, *others = [
            replace(
                pack.members[number].line,
                request=pack.members[numbers[0]].key,
                number=number,
                ceiling_usd=0.0,
                counted_tokens=0,
                most_input=0,
                size=0,
            )
            for number in numbers
        ]
        lead = replace(
            first,
            ceiling_usd=self._pool[arm].model.for_tasks(len(numbers)).ceiling(messages, schema, batched=True),
            counted_tokens=self._pool[arm].model.count(messages),
            most_input=self._pool[arm].model.most_input(messages, schema),
            size=self._pool[arm].batches.size(self._body(arm, pack)),
        )
        shares = pack.shares
        return _BatchRequest([lead, *others], {line.task: shares[line.key] for line in (lead, *others)})

    def _body(self, arm: str, pack: Pack[_PackedLine]) -> dict[str, Any]:
        tasks = len(pack.members)
        request = self._pool[arm].model.for_tasks(tasks).batch_request(pack.messages, pack.schema)
        return provider_body(request)


def _grouped(lines: Sequence[BatchLine], most: int) -> list[list[_PackedLine]]:
    """Lines that may share a prompt, in groups that are not too large."""
    full: list[list[_PackedLine]] = []
    open_: dict[str, tuple[list[_PackedLine], int]] = {}
    for line in lines:
        packed = _PackedLine(line, PackedTask.from_json(line.body or {}))
        group, tokens = open_.get(packed.task.system, ([], 0))
        own = own_tokens(packed.task)
        if group and (len(group) == most or tokens + own > MOST_TOKENS):
            full.append(group)
            group, tokens = [], 0
        open_[packed.task.system] = ([*group, packed], tokens + own)
    return [*full, *(group for group, _ in open_.values())]


AT_ONCE = 200
"""Lines that one transaction handles, so that other writers get their turn."""

_HELD = 30 * 24 * 3600.0
"""Seconds for which claims and reservations of a job last: as long as providers keep its results."""


_UNSENT: Final = CallOutcome(None, Usage(0, 0, 0.0), None, None)
"""The outcome of a request that was never sent."""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A job to be filled.

    Attributes:
        id: its id.
        project: the project that pays.
        model: the model's name in the pool.
        owner: the process that fills it.
        lease: seconds until another process may take it over.
        limits: the most that its provider takes in one batch.
        tokens: the most tokens that it may hold; ``None`` for any number.
        budget: the limits on spending.
        purse: an account inside the project's that must cover the lines, too; ``None`` for none.
    """

    id: str
    project: str
    model: str
    owner: str
    lease: float
    limits: Limits
    tokens: int | None
    budget: BudgetSettings
    purse: Purse | None = None


@dataclass(frozen=True, slots=True)
class Filling:
    """How full a job is.

    Attributes:
        requests: how many requests it has.
        size: their bytes.
        tokens: their tokens.
        after: the key of the last line that was looked at.
        full: whether it takes no more.
        short: why money for the next line is missing; ``None`` if it is not.
    """

    requests: int = 0
    size: int = 0
    tokens: int = 0
    after: str = ""
    full: bool = False
    short: BudgetExhaustedError | None = None

    def has_room(self, job: JobRequest, request: _BatchRequest) -> bool:
        """Whether the next request fits. One that is too long for any job goes alone."""
        if not self.requests:
            return True
        lead, limits = request.lead, job.limits
        within = job.tokens is None or self.tokens + lead.counted_tokens <= job.tokens
        return within and self.requests < limits.lines and self.size + lead.size <= limits.size

    def plus(self, request: _BatchRequest) -> Filling:
        """The job with one more request."""
        return replace(
            self,
            requests=self.requests + 1,
            size=self.size + request.lead.size,
            tokens=self.tokens + request.lead.counted_tokens,
        )


def fill(connection: Connection, job: JobRequest, requests: Requests, so_far: Filling) -> Filling:
    """Let a job take the next lines, and reserve their money."""
    pack = requests.pack_size(job.model)
    lines = Lines(connection)
    found = lines.wanted(job.project, job.model, max(AT_ONCE // pack, 1) * pack, so_far.after)
    held = lines.held(job.id)
    filling = replace(so_far, requests=held.requests, size=held.size, tokens=held.tokens, full=not found)
    owner = batch_owner(job.id)
    # A line that a process asks for at the moment is left for later.
    mine = [
        line
        for line in _open(connection, found)
        if Claims(connection).acquire(line.key, owner, _HELD) is not None
    ]
    bundled = requests.bundle(mine)
    for request in bundled:
        filling = _take(connection, job, requests, filling, request)
    taken = {line.key for request in bundled for line in request.lines}
    _ask_singly(connection, [line for line in mine if line.key not in taken], owner)
    if filling.requests:
        Jobs(connection).change(job.id, lines=filling.requests, tokens=filling.tokens)
    return replace(filling, after=found[-1].key) if found else filling


def _open(connection: Connection, found: Sequence[BatchLine]) -> list[BatchLine]:
    """The lines that are still to be answered; the others end."""
    stored = answers.find_by_key(connection, [line.key for line in found])
    still = []
    for line in found:
        lines = Lines(connection)
        if line.key in stored:
            lines.end(line.key, "answered", None, 0)
        elif line.body is None or projects.is_deleted(connection, line.project, line.task):
            lines.end(line.key, "discarded", None, 0)
        else:
            still.append(line)
    return still


def _take(
    connection: Connection, job: JobRequest, requests: Requests, filling: Filling, request: _BatchRequest
) -> Filling:
    """Reserve the money of a request whose lines are claimed, or give the claims back.

    A budget that covers a part of the tasks of a prompt is spent on that part.
    """
    owner = batch_owner(job.id)
    if filling.full or not filling.has_room(job, request):
        _let_go(connection, request.lines, owner)
        return replace(filling, full=True)
    try:
        call = _reserve(connection, job, request)
    except BudgetExhaustedError as error:
        most = len(request.lines) // 2
        if not most or error.held:
            _let_go(connection, request.lines, owner)
            return replace(filling, short=error, full=True)
        for part in requests.bundle(request.lines, most):
            filling = _take(connection, job, requests, filling, part)
        return filling
    if not filling.requests:
        Jobs(connection).create(job.id, job.project, job.model, job.owner, job.lease)
    for line in request.lines:
        Claims(connection).note_call(line.key, owner, call)
        Lines(connection).take(line, job.id, call)
    return filling.plus(request)


def _reserve(connection: Connection, job: JobRequest, request: _BatchRequest) -> int:
    lead = request.lead
    wanted = money.Reservation(
        project=lead.project,
        task=lead.task,
        model=lead.model,
        key=lead.key,
        usd=lead.ceiling_usd,
        project_usd=job.budget.project_usd,
        day_usd=job.budget.day_usd,
        counted_tokens=lead.counted_tokens,
        seconds=_HELD,
        shares=request.shares,
        purse=job.purse,
    )
    return money.reserve_each(connection, [wanted])[lead.key]


def _ask_singly(connection: Connection, alone: Sequence[BatchLine], owner: str) -> None:
    """Store an empty answer about tasks that no prompt can hold, so that they are asked about singly."""
    for line in alone:
        payer = (line.project, line.task)
        empty = BoughtAnswer(key=line.key, model=line.model, payer=payer, content="", outcome=_UNSENT)
        store_answers(connection, [empty], now=now(connection))
        Lines(connection).end(line.key, "answered", None, 0)
    _let_go(connection, alone, owner)


def _let_go(connection: Connection, some: Sequence[BatchLine], owner: str) -> None:
    for line in some:
        Claims(connection).release([line.key], owner)


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
        lost: whether its provider has charged for an answer that it has no more.
    """

    lines: Sequence[BatchLine]
    outcome: CallOutcome
    contents: Mapping[str, str] | None = None
    again: bool = False
    tried: bool = True
    lost: bool = False


class Settlement:
    """Settles the requests of jobs; ``retries`` is how often a line is tried again."""

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

        ``out`` has the lines that are still out, by the custom id of their request.
        """
        left, ready, failed = dict(out), list[_Settled](), dict[str, LineResult]()
        answered = set[str]()
        async for result in provider.results(batch):
            if result.response is not None:
                answered.add(result.custom_id)
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
        lost = batch.answered - len(answered)  # such as those of results that were not kept long enough
        for place, request in enumerate(left.values()):
            ready.append(_lapsed(request, tried=not job.cancelled, lost=place < lost))
        await self._book_all(job, ready)
        at = self._clock()
        await self._writer.persist(
            lambda connection: Jobs(connection).change_if(job.id, "out", state="ended", ended_at=at)
        )

    async def give_back(self, job: BatchJob, out: Mapping[str, Sequence[BatchLine]], code: str) -> None:
        """Let all lines of a job be wanted again, because its provider took none of them."""
        outcome = CallOutcome(None, _NOTHING, code, None)
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
            outcome = CallOutcome(None, error.usage or _NOTHING, error.code, None, cut_off=cut_off)
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
        cut_off = lead.number is None and answer.cut_off
        outcome = CallOutcome(None, answer.usage, None, None, sure, answer.version, cut_off)
        return _Settled(request, outcome, contents)

    async def _book_all(self, job: BatchJob, settled: Sequence[_Settled]) -> None:
        for some in portions(settled, _REQUESTS):
            await self._book(job, some)

    async def _book(self, job: BatchJob, settled: Sequence[_Settled]) -> None:
        booked = await self._writer.persist(partial(self._write, job, settled))
        for model, outcome in booked:
            metrics.model_calls.labels(model=model, outcome=outcome.code or "answered").inc()
            metrics.model_dollars.labels(model=model).inc(outcome.usage.cost)

    def _write(
        self, job: BatchJob, settled: Sequence[_Settled], connection: Connection
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
            if each.lost and call is not None:
                money.lose(connection, [call])
            else:
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


def _lapsed(request: Sequence[BatchLine], *, tried: bool = True, lost: bool = False) -> _Settled:
    return _Settled(request, CallOutcome(None, _NOTHING, _LAPSED, None), again=True, tried=tried, lost=lost)
