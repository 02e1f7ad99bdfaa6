"""Alerts and whom they were told: one row for each, so that all processes together tell of it once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, select, update

from backend.ledger.database import tables
from backend.ledger.database.clock import now
from backend.ledger.database.upsert import insert_new

_table = tables.alerts
_columns = _table.c

PATIENCE = 900.0
"""Seconds for which an alert must not be seen before it is over: one that flickers is told once."""


@dataclass(frozen=True, slots=True, order=True)
class AlertKey:
    """What an alert is about.

    Attributes:
        project: the project's key, empty if it concerns all of them.
        code: its stable code.
        subject: the model or the control that it is about, empty if none.
    """

    project: str
    code: str
    subject: str


_IS = (
    _columns.project == bindparam("of"),
    _columns.code == bindparam("named"),
    _columns.subject == bindparam("about"),
)


def see(connection: Connection, seen: Collection[AlertKey]) -> list[AlertKey]:
    """Record which alerts there are now; those not seen for :data:`PATIENCE` seconds are over.

    Args:
        connection: a write transaction.
        seen: the alerts of this moment.

    Returns:
        Those of them that nobody was told of since they began.
    """
    at = now(connection)
    for key in sorted(seen):
        row = {"project": key.project, "code": key.code, "subject": key.subject}
        new = insert_new(connection.dialect, _table)
        connection.execute(new, row | {"began_at": at, "seen_at": at})
        again = update(_table).where(*_IS, _columns.over_at.is_not(None))
        connection.execute(again.values(began_at=at, posted_at=None, over_at=None), _named(key))
        connection.execute(update(_table).where(*_IS).values(seen_at=at), _named(key))
    gone = (_columns.over_at.is_(None), _columns.seen_at < at - PATIENCE)
    connection.execute(update(_table).where(*gone).values(over_at=at))
    untold = select(_columns.project, _columns.code, _columns.subject).where(
        _columns.over_at.is_(None), _columns.posted_at.is_(None)
    )
    return sorted({AlertKey(*row) for row in connection.execute(untold)} & set(seen))


def told(connection: Connection, keys: Collection[AlertKey]) -> None:
    """Record that people were told of these alerts."""
    at = now(connection)
    for key in keys:
        connection.execute(update(_table).where(*_IS).values(posted_at=at), _named(key))


def known(connection: Connection) -> dict[AlertKey, bool]:
    """Return every alert there ever was → whether it is still there."""
    query = select(_columns.project, _columns.code, _columns.subject, _columns.over_at)
    return {
        AlertKey(project, code, subject): over_at is None
        for project, code, subject, over_at in connection.execute(query)
    }


def _named(key: AlertKey) -> dict[str, str]:
    return {"of": key.project, "named": key.code, "about": key.subject}
