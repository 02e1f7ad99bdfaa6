"""Filling a job: lines are claimed, and their money is reserved, before anything is sent."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlalchemy import Connection

from backend.errors import BudgetExhaustedError
from backend.ledger import deleted_tasks
from backend.ledger.batches import jobs, lines
from backend.ledger.batches.lines import BatchLine
from backend.ledger.calls import answers, claims
from backend.ledger.money import spending
from backend.ledger.money.accounts import Purse
from backend.models.batches.provider import Limits
from backend.settings import BudgetSettings

AT_ONCE = 200
"""Lines that one transaction handles, so that other writers get their turn."""

HELD = 30 * 24 * 3600.0
"""Seconds for which claims and reservations of a job last: as long as providers keep its results."""


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
        lines: how many lines it has.
        size: their bytes.
        tokens: their tokens.
        after: the key of the last line that was looked at.
        full: whether it takes no more.
        short: why money for the next line is missing; ``None`` if it is not.
    """

    lines: int = 0
    size: int = 0
    tokens: int = 0
    after: str = ""
    full: bool = False
    short: BudgetExhaustedError | None = None

    def has_room(self, request: JobRequest, line: BatchLine) -> bool:
        """Whether the next line fits. A line that is too long for any job goes alone."""
        if not self.lines:
            return True
        within = request.tokens is None or self.tokens + line.counted_tokens <= request.tokens
        limits = request.limits
        return within and self.lines < limits.lines and self.size + line.size <= limits.size


def fill(connection: Connection, request: JobRequest, so_far: Filling) -> Filling:
    """Let a job take the next lines, and reserve their money.

    Args:
        connection: a write transaction.
        request: the job.
        so_far: what earlier transactions filled it with.
    """
    found = lines.wanted(connection, request.project, request.model, AT_ONCE, so_far.after)
    held = lines.held(connection, request.id)
    filling = replace(so_far, lines=held.lines, size=held.size, tokens=held.tokens, full=not found)
    stored = answers.find_by_key(connection, [line.key for line in found])
    for line in found:
        if not filling.has_room(request, line):
            filling = replace(filling, full=True)
            break
        if line.key in stored:
            lines.end(connection, line.key, "answered", None, 0)
        elif line.body is None or deleted_tasks.is_deleted(connection, line.project, line.task):
            lines.end(connection, line.key, "discarded", None, 0)
        else:
            filling = _take(connection, request, filling, line)
        if filling.short is not None:
            break
        filling = replace(filling, after=line.key)
    if filling.lines:
        jobs.change(connection, request.id, lines=filling.lines, tokens=filling.tokens)
    return filling


def _take(connection: Connection, request: JobRequest, filling: Filling, line: BatchLine) -> Filling:
    """Claim a line and reserve its money; one that a process asks for at the moment is left for later."""
    owner = claims.batch_owner(request.id)
    if claims.acquire(connection, line.key, owner, HELD) is None:
        return filling
    try:
        call = spending.reserve(
            connection,
            project=line.project,
            task=line.task,
            model=line.model,
            key=line.key,
            usd=line.ceiling_usd,
            project_usd=request.budget.project_usd,
            day_usd=request.budget.day_usd,
            counted_tokens=line.counted_tokens,
            seconds=HELD,
            purse=request.purse,
        )
    except BudgetExhaustedError as error:
        claims.release(connection, line.key, owner)
        return replace(filling, short=error, full=True)
    if not filling.lines:
        jobs.create(connection, request.id, request.project, request.model, request.owner, request.lease)
    claims.note_call(connection, line.key, owner, call)
    lines.take(connection, line.key, request.id, call)
    return replace(
        filling,
        lines=filling.lines + 1,
        size=filling.size + line.size,
        tokens=filling.tokens + line.counted_tokens,
    )
