"""Snapshots: states as bytes, so that a start-up adds up only what came after."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, delete, select

from backend.ledger.database import tables
from backend.ledger.database.upsert import insert_new

_table = tables.snapshots

KEPT = 2
"""Snapshots kept of a state: when the newest cannot be read, the one before saves the long way."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state with all of its events up to the number ``sequence``; ``state`` is packed bytes."""

    sequence: int
    state: bytes
    created_at: float


def save(  # noqa: PLR0917 - the first four name a state, as in latest()
    connection: Connection, project: str, control: str, epoch: str, sequence: int, state: bytes, *, now: float
) -> None:
    """Store a snapshot and delete all but the latest two of its state.

    Two processes may save the same one: the first stays, they are equal.
    """
    row = {
        "project": project,
        "control": control,
        "epoch": epoch,
        "sequence": sequence,
        "state": state,
        "created_at": now,
    }
    connection.execute(insert_new(connection.dialect, _table), row)
    of_state = _of_state(project, control, epoch)
    latest = select(_table.c.sequence).where(*of_state).order_by(_table.c.sequence.desc()).limit(KEPT)
    connection.execute(delete(_table).where(*of_state, _table.c.sequence.not_in(latest)))


def latest(connection: Connection, project: str, control: str, epoch: str) -> list[Snapshot]:
    """Up to two snapshots of a state, the newest first."""
    rows = connection.execute(
        select(_table.c.sequence, _table.c.state, _table.c.created_at)
        .where(*_of_state(project, control, epoch))
        .order_by(_table.c.sequence.desc())
        .limit(KEPT)
    )
    return [Snapshot(**row._mapping) for row in rows]


def _of_state(project: str, control: str, epoch: str) -> tuple[ColumnElement[bool], ...]:
    return (_table.c.project == project, _table.c.control == control, _table.c.epoch == epoch)
