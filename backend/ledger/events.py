"""Events: the append-only list whose sum, in order, is the state of every question."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from sqlalchemy import Connection, Select, bindparam, insert, select

from backend.ledger import projects
from backend.ledger.database import tables

_table = tables.events
_APPEND = insert(_table)

Kind = Literal["round", "revision"]


@dataclass(frozen=True, slots=True)
class Event:
    """One contribution to one state.

    Attributes:
        project: the project's key.
        sequence: its number within the project: 1, 2, 3 … without gaps.
        control: the name of the question's control tag.
        epoch: which of the question's states it adds to.
        kind: a finished round, or a revision of what one taught.
        round_id: the round it came from, which may be deleted by now.
        contribution: packed bytes (``camvo.state.contribution.Contribution``).
        created_at: unix seconds.
    """

    project: str
    sequence: int
    control: str
    epoch: str
    kind: Kind
    round_id: int | None
    contribution: bytes
    created_at: float


def append(
    connection: Connection,
    project: str,
    *,
    control: str,
    epoch: str,
    kind: Kind,
    contribution: bytes,
    round_id: int | None,
    now: float,
) -> int:
    """Append an event to the project's list and return its number."""
    projects.ensure(connection, project, now)
    sequence = projects.next_sequence(connection, project)
    row = {
        "project": project,
        "sequence": sequence,
        "control": control,
        "epoch": epoch,
        "kind": kind,
        "round_id": round_id,
        "contribution": contribution,
        "created_at": now,
    }
    connection.execute(_APPEND, row)
    return sequence


def after(
    connection: Connection,
    project: str,
    sequence: int,
    *,
    control: str | None = None,
    epoch: str | None = None,
    limit: int = 1000,
) -> list[Event]:
    """The first ``limit`` events after number ``sequence``, in order; of one control and epoch if given."""
    given = {"of": project, "number": sequence, "most": limit, "name": control, "hash": epoch}
    rows = connection.execute(_after(control is not None, epoch is not None), given)
    return [Event(**row._mapping) for row in rows]


@cache
def _after(of_control: bool, of_epoch: bool) -> Select[Any]:
    query = select(_table).where(_table.c.project == bindparam("of"), _table.c.sequence > bindparam("number"))
    if of_control:
        query = query.where(_table.c.control == bindparam("name"))
    if of_epoch:
        query = query.where(_table.c.epoch == bindparam("hash"))
    return query.order_by(_table.c.sequence).limit(bindparam("most"))


def last(connection: Connection, project: str) -> int:
    """The number of the project's last event, 0 when it has none."""
    found = projects.get(connection, project)
    return 0 if found is None else found.sequence
