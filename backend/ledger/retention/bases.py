"""Bases: the sums of old events, which replace them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from sqlalchemy import Connection, and_, bindparam, delete, exists, func, select

from backend.errors import LedgerError
from backend.ledger.database import tables
from backend.ledger.database.upsert import insert_or_replace

_table, _events = tables.bases, tables.events
_GET = select(_table).where(
    _table.c.project == bindparam("of"),
    _table.c.control == bindparam("name"),
    _table.c.epoch == bindparam("hash"),
)


@dataclass(frozen=True, slots=True)
class Base:
    """The sum of a state's first events.

    Attributes:
        project: the project's key.
        control: the name of the question's control tag.
        epoch: the question's epoch.
        sequence: the number of the last event of the project when it was made; the state's events up to there
            are in it.
        events: how many events are in it.
        state: packed bytes (:meth:`camvo.state.state.State.snapshot`), with the linear models.
        digest: SHA-256 of ``state``, hexadecimal.
        created_at: unix seconds.
    """

    project: str
    control: str
    epoch: str
    sequence: int
    events: int
    state: bytes
    digest: str
    created_at: float

    @property
    def whole(self) -> bool:
        """Whether the bytes are those that were stored."""
        return digest_of(self.state) == self.digest


def digest_of(state: bytes) -> str:
    """SHA-256 of a packed state, hexadecimal."""
    return hashlib.sha256(state).hexdigest()


def get(connection: Connection, project: str, control: str, epoch: str) -> Base | None:
    """Return a state's base; ``None`` while no event of it is folded."""
    row = connection.execute(_GET, {"of": project, "name": control, "hash": epoch}).one_or_none()
    return None if row is None else Base(**row._mapping)


def of_project(connection: Connection, project: str) -> list[Base]:
    """Return every base of a project."""
    query = select(_table).where(_table.c.project == project).order_by(_table.c.control, _table.c.epoch)
    return [Base(**row._mapping) for row in connection.execute(query)]


def folded_through(connection: Connection, project: str) -> int:
    """Return the number up to which a project's events are folded, 0 if none are."""
    query = select(func.coalesce(func.max(_table.c.sequence), 0)).where(_table.c.project == project)
    return int(connection.scalars(query).one())


def replace(connection: Connection, base: Base, previous: Base | None) -> None:
    """Store a base in place of the one that it was made from.

    Raises:
        LedgerError: another process has made one meanwhile.
    """
    stored = get(connection, base.project, base.control, base.epoch)
    if (stored and stored.digest) != (previous and previous.digest):
        raise LedgerError(
            "another process folds the same events",
            where=f"project {base.project}, control {base.control}",
            fix="let one prune run at a time, and repeat this one",
        )
    row = {name: getattr(base, name) for name in Base.__slots__}
    connection.execute(insert_or_replace(connection.dialect, _table), row)


def delete_folded(connection: Connection, project: str, first: int, last: int) -> int:
    """Delete the events that a base includes, and return how many.

    Args:
        connection: a write transaction.
        project: the project's key.
        first: the first number to look at.
        last: the last one.
    """
    is_folded = exists().where(
        _table.c.project == _events.c.project,
        _table.c.control == _events.c.control,
        _table.c.epoch == _events.c.epoch,
        _table.c.sequence >= _events.c.sequence,
    )
    among = and_(_events.c.project == project, _events.c.sequence.between(first, last))
    return connection.execute(delete(_events).where(among, is_folded)).rowcount
