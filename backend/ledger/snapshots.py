"""Snapshots: states as bytes, so that a restart only adds the events after them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, delete, select

from backend.ledger.database import tables
from backend.ledger.database.upsert import insert_new

_table = tables.snapshots

KEPT = 2
"""Number of snapshots kept of each state: the second is the fallback if the newest cannot be read."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One stored state.

    Attributes:
        sequence: number of the last event that the state includes.
        state: packed bytes (:meth:`camvo.state.state.State.snapshot`).
        created_at: unix seconds.
    """

    sequence: int
    state: bytes
    created_at: float


def save(  # noqa: PLR0917 - the first four name a state, as in latest()
    connection: Connection, project: str, control: str, epoch: str, sequence: int, state: bytes, *, now: float
) -> None:
    """Store a snapshot and delete all but the latest two of its state.

    If another process has saved the same snapshot already, that equal one stays.
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
    """Return up to two snapshots of a state, the newest first."""
    rows = connection.execute(
        select(_table.c.sequence, _table.c.state, _table.c.created_at)
        .where(*_of_state(project, control, epoch))
        .order_by(_table.c.sequence.desc())
        .limit(KEPT)
    )
    return [Snapshot(**row._mapping) for row in rows]


def _of_state(project: str, control: str, epoch: str) -> tuple[ColumnElement[bool], ...]:
    return (_table.c.project == project, _table.c.control == control, _table.c.epoch == epoch)
