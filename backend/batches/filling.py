"""Filling a job: lines are claimed, and their money is reserved, before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import Connection

from backend.batches.requests import BatchRequest, Requests
from backend.errors import BudgetExhaustedError, Usage
from backend.ledger import deleted_tasks
from backend.ledger.batches import jobs, lines
from backend.ledger.batches.lines import BatchLine
from backend.ledger.calls import answers, claims
from backend.ledger.calls.bookings import CallOutcome, store_answer
from backend.ledger.database.clock import now
from backend.ledger.money import spending
from backend.ledger.money.accounts import Purse
from backend.models.batches.provider import Limits
from backend.settings import BudgetSettings

AT_ONCE = 200
"""Lines that one transaction handles, so that other writers get their turn."""

HELD = 30 * 24 * 3600.0
"""Seconds for which claims and reservations of a job last: as long as providers keep its results."""


UNSENT: Final = CallOutcome(None, Usage(0, 0, 0.0), None, 0.0)
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

    def has_room(self, job: JobRequest, request: BatchRequest) -> bool:
        """Whether the next request fits. One that is too long for any job goes alone."""
        if not self.requests:
            return True
        lead, limits = request.lead, job.limits
        within = job.tokens is None or self.tokens + lead.counted_tokens <= job.tokens
        return within and self.requests < limits.lines and self.size + lead.size <= limits.size

    def plus(self, request: BatchRequest) -> Filling:
        """The job with one more request."""
        return replace(
            self,
            requests=self.requests + 1,
            size=self.size + request.lead.size,
            tokens=self.tokens + request.lead.counted_tokens,
        )


def fill(connection: Connection, job: JobRequest, requests: Requests, so_far: Filling) -> Filling:
    """Let a job take the next lines, and reserve their money.

    Args:
        connection: a write transaction.
        job: the job.
        requests: puts lines into requests.
        so_far: what earlier transactions filled it with.
    """
    pack = requests.pack_size(job.model)
    found = lines.wanted(connection, job.project, job.model, max(AT_ONCE // pack, 1) * pack, so_far.after)
    held = lines.held(connection, job.id)
    filling = replace(so_far, requests=held.requests, size=held.size, tokens=held.tokens, full=not found)
    owner = claims.batch_owner(job.id)
    # A line that a process asks for at the moment is left for later.
    mine = [
        line
        for line in _open(connection, found)
        if claims.acquire(connection, line.key, owner, HELD) is not None
    ]
    bundled = requests.bundle(mine)
    for request in bundled:
        filling = _take(connection, job, requests, filling, request)
    taken = {line.key for request in bundled for line in request.lines}
    _ask_singly(connection, [line for line in mine if line.key not in taken], owner)
    if filling.requests:
        jobs.change(connection, job.id, lines=filling.requests, tokens=filling.tokens)
    return replace(filling, after=found[-1].key) if found else filling


def _open(connection: Connection, found: Sequence[BatchLine]) -> list[BatchLine]:
    """The lines that are still to be answered; the others end."""
    stored = answers.find_by_key(connection, [line.key for line in found])
    still = []
    for line in found:
        if line.key in stored:
            lines.end(connection, line.key, "answered", None, 0)
        elif line.body is None or deleted_tasks.is_deleted(connection, line.project, line.task):
            lines.end(connection, line.key, "discarded", None, 0)
        else:
            still.append(line)
    return still


def _take(
    connection: Connection, job: JobRequest, requests: Requests, filling: Filling, request: BatchRequest
) -> Filling:
    """Reserve the money of a request whose lines are claimed, or give the claims back.

    A budget that covers a part of the tasks of a prompt is spent on that part.
    """
    owner = claims.batch_owner(job.id)
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
        jobs.create(connection, job.id, job.project, job.model, job.owner, job.lease)
    for line in request.lines:
        claims.note_call(connection, line.key, owner, call)
        lines.take(connection, line, job.id, call)
    return filling.plus(request)


def _reserve(connection: Connection, job: JobRequest, request: BatchRequest) -> int:
    lead = request.lead
    return spending.reserve(
        connection,
        project=lead.project,
        task=lead.task,
        model=lead.model,
        key=lead.key,
        usd=lead.ceiling_usd,
        project_usd=job.budget.project_usd,
        day_usd=job.budget.day_usd,
        counted_tokens=lead.counted_tokens,
        seconds=HELD,
        shares=request.shares,
        purse=job.purse,
    )


def _ask_singly(connection: Connection, alone: Sequence[BatchLine], owner: str) -> None:
    """Store an empty answer about tasks that no prompt can hold, so that they are asked about singly."""
    for line in alone:
        payer, at = (line.project, line.task), now(connection)
        store_answer(connection, line.key, line.model, payer, "", UNSENT, now=at)
        lines.end(connection, line.key, "answered", None, 0)
    _let_go(connection, alone, owner)


def _let_go(connection: Connection, some: Sequence[BatchLine], owner: str) -> None:
    for line in some:
        claims.release(connection, line.key, owner)
