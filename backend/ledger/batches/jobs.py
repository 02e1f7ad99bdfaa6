"""Batch jobs: what was sent to a provider as one batch, and how far it is.

A job goes from ``filling`` (its lines are being claimed) over ``sending`` (the provider may have it) and
``out`` (the provider has it) to ``ended`` (every line is settled) and ``closed`` (the provider's files are
deleted). A job that the provider refuses as a whole is ``refused``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from sqlalchemy import Connection, Row, bindparam, func, insert, select, update

from backend.ledger.database import tables
from backend.ledger.database.clock import now

_table = tables.batch_jobs
_RENEW = (
    update(_table)
    .where(_table.c.id == bindparam("of"), _table.c.owner == bindparam("by"))
    .values(leased_until=bindparam("until"))
)

_REMEMBERED: Final = 24 * 3600.0
_DOUBLINGS: Final = 30

State = Literal["filling", "sending", "out", "ended", "closed", "refused"]

UNSENT: Final[Sequence[State]] = ("filling", "sending")
"""States in which one process at a time works on a job, by its lease."""

OPEN: Final[Sequence[State]] = (*UNSENT, "out")
"""States in which lines of a job may still be answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob:
    """One job.

    Attributes:
        id: 32 hexadecimal digits.
        project: the project that pays.
        model: the model's name in the pool.
        state: how far it is.
        owner: the process that sends it.
        leased_until: until when no other process sends it, unix seconds.
        provider_id: the provider's name for the batch; ``None`` before it is known.
        files: the provider's files: purpose → id.
        lines: how many lines the provider's batch has; each is about one task or several.
        tokens: their input tokens and the most output tokens, by our own count.
        token_limit: the most enqueued tokens, if the provider refused the job for them.
        cancelled: whether somebody asked to cancel it.
        code: why the provider refused or ended it; ``None`` without a reason.
        created_at: unix seconds.
        sent_at: when the batch was first sent, unix seconds.
        due_at: when the provider gives up at the latest, unix seconds.
        ended_at: when the last line was settled, unix seconds.
    """

    id: str
    project: str
    model: str
    state: State
    owner: str
    leased_until: float
    provider_id: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    lines: int = 0
    tokens: int = 0
    token_limit: int | None = None
    cancelled: bool = False
    code: str | None = None
    created_at: float = 0.0
    sent_at: float | None = None
    due_at: float | None = None
    ended_at: float | None = None


def create(  # noqa: PLR0917 - a job's identity
    connection: Connection, job: str, project: str, model: str, owner: str, seconds: float
) -> None:
    """Store a new job without lines, leased by ``owner`` for ``seconds``."""
    at = now(connection)
    row = {
        "id": job,
        "project": project,
        "model": model,
        "state": "filling",
        "owner": owner,
        "leased_until": at + seconds,
        "files": {},
        "lines": 0,
        "tokens": 0,
        "cancelled": False,
        "created_at": at,
    }
    connection.execute(insert(_table), row)


def get(connection: Connection, job: str) -> BatchJob | None:
    """Return a job; ``None`` if there is no such job."""
    row = connection.execute(select(_table).where(_table.c.id == job)).one_or_none()
    return None if row is None else _job(row)


def find(
    connection: Connection,
    *,
    states: Sequence[State] = (),
    project: str | None = None,
    model: str | None = None,
    limit: int | None = None,
) -> list[BatchJob]:
    """Return the jobs in some states, or in any, the newest last."""
    query = select(_table).order_by(_table.c.created_at.desc(), _table.c.id).limit(limit)
    if states:
        query = query.where(_table.c.state.in_(states))
    if project is not None:
        query = query.where(_table.c.project == project)
    if model is not None:
        query = query.where(_table.c.model == model)
    return [_job(row) for row in connection.execute(query)][::-1]


def change(connection: Connection, job: str, **values: Any) -> None:
    """Set columns of a job."""
    connection.execute(update(_table).where(_table.c.id == job).values(values))


def change_if(connection: Connection, job: str, before: State, **values: Any) -> bool:
    """Set columns of a job that is in the state ``before``; whether it was."""
    statement = update(_table).where(_table.c.id == job, _table.c.state == before).values(values)
    return connection.execute(statement).rowcount > 0


def lease(connection: Connection, job: str, owner: str, seconds: float) -> bool:
    """Lease an unsent job whose lease is over; whether that worked.

    The owner itself waits as well: what it sent may still be on its way.
    """
    at = now(connection)
    statement = (
        update(_table)
        .where(_table.c.id == job, _table.c.state.in_(UNSENT), _table.c.leased_until <= at)
        .values(owner=owner, leased_until=at + seconds)
    )
    return connection.execute(statement).rowcount > 0


def renew(connection: Connection, jobs: Sequence[str], owner: str, seconds: float) -> None:
    """Let the owner's leases last for ``seconds`` more."""
    until = now(connection) + seconds
    for job in jobs:
        connection.execute(_RENEW, {"of": job, "by": owner, "until": until})


def provider_ids(connection: Connection) -> set[str]:
    """Return the providers' names of all batches that the ledger knows."""
    return set(connection.scalars(select(_table.c.provider_id).where(_table.c.provider_id.is_not(None))))


def enqueued(connection: Connection, models: Collection[str]) -> int:
    """Return the tokens of the jobs of a model and its twin that a provider may have now."""
    query = select(func.sum(_table.c.tokens)).where(_table.c.model.in_(models), _table.c.state.in_(OPEN))
    return int(connection.scalars(query).one() or 0)


def learned_limit(connection: Connection, models: Collection[str]) -> int | None:
    """Return how many tokens may be enqueued of a model and its twin, as learnt from the last refusal.

    Each job that it took since then doubles the number. ``None`` if it has not refused within a day.
    """
    mine = (_table.c.model.in_(models), _table.c.created_at > now(connection) - _REMEMBERED)
    refused = connection.execute(
        select(_table.c.token_limit, _table.c.created_at)
        .where(*mine, _table.c.token_limit.is_not(None))
        .order_by(_table.c.created_at.desc())
        .limit(1)
    ).one_or_none()
    if refused is None:
        return None
    since = (_table.c.created_at > refused.created_at, _table.c.state.in_(("ended", "closed")))
    taken = connection.scalars(select(func.count()).where(*mine, *since)).one()
    return int(refused.token_limit * 2 ** min(taken, _DOUBLINGS))


def _job(row: Row[Any]) -> BatchJob:
    return BatchJob(**row._mapping)
