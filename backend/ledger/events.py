"""Events: the append-only list whose sum, in order, is the state of every question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from sqlalchemy import Connection, Row, Select, bindparam, insert, select

from backend.ledger import projects
from backend.ledger.database import tables
from backend.ledger.database.packing import with_context, without_context

_table, _contexts = tables.events, tables.contexts
_APPEND = insert(_table)

Kind = Literal["round", "revision", "restart"]


@dataclass(frozen=True, slots=True)
class Event:
    """One contribution to one state.

    Attributes:
        project: the project's key.
        sequence: the event's number within the project: 1, 2, 3 … without gaps.
        control: the name of the question's control tag.
        epoch: the question's epoch, which selects the state that the event adds to.
        kind: ``"round"`` for a finished round, ``"revision"`` for a correction of an earlier round, and
            ``"restart"`` for what begins anew because the tasks or a model have changed.
        round_id: the round the event belongs to, ``None`` for a restart; that round may have been deleted
            since.
        contribution: packed bytes (:class:`camvo.state.contribution.Contribution`).
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


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """An event to append; the attributes are those of :class:`Event`.

    Attributes:
        context_of_round: whether the contribution's context, and the n-grams after it, are those stored with
            the round, so that the event need not hold them too.
    """

    control: str
    epoch: str
    kind: Kind
    contribution: bytes
    round_id: int | None
    context_of_round: bool = False


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
    context_of_round: bool = False,
) -> int:
    """Append one event to the project's list and return its number; see :class:`NewEvent`."""
    event = NewEvent(
        control=control,
        epoch=epoch,
        kind=kind,
        contribution=contribution,
        round_id=round_id,
        context_of_round=context_of_round,
    )
    return append_each(connection, project, [event], now)[0]


def append_each(connection: Connection, project: str, new: Sequence[NewEvent], now: float) -> range:
    """Append events to the project's list, in their order, and return their numbers.

    Args:
        connection: a write transaction.
        project: the project's key.
        new: at least one event.
        now: unix seconds.
    """
    numbers = projects.next_sequences(connection, project, len(new), now)
    rows = [
        {
            "project": project,
            "sequence": number,
            "control": event.control,
            "epoch": event.epoch,
            "kind": event.kind,
            "round_id": event.round_id,
            "contribution": (
                without_context(event.contribution) if event.context_of_round else event.contribution
            ),
            "created_at": now,
        }
        for number, event in zip(numbers, new, strict=True)
    ]
    connection.execute(_APPEND, rows)
    return numbers


def after(
    connection: Connection,
    project: str,
    sequence: int,
    *,
    control: str | None = None,
    epoch: str | None = None,
    limit: int = 1000,
) -> list[Event]:
    """Return the first ``limit`` events after number ``sequence``, in order.

    ``control`` and ``epoch``, where given, restrict the events to one question or one state.
    """
    values = {"of": project, "number": sequence, "most": limit, "name": control, "hash": epoch}
    rows = connection.execute(_after(control is not None, epoch is not None), values)
    return [_event(row) for row in rows]


def _event(row: Row[Any]) -> Event:
    """The event with its whole contribution."""
    values = dict(row._mapping)
    context = values.pop("context")
    values["contribution"] = with_context(values["contribution"], context)
    return Event(**values)


@cache
def _after(of_control: bool, of_epoch: bool) -> Select[Any]:
    beside = _contexts.c.round_id == _table.c.round_id
    query = select(_table, _contexts.c.context).outerjoin(_contexts, beside)
    query = query.where(_table.c.project == bindparam("of"), _table.c.sequence > bindparam("number"))
    if of_control:
        query = query.where(_table.c.control == bindparam("name"))
    if of_epoch:
        query = query.where(_table.c.epoch == bindparam("hash"))
    return query.order_by(_table.c.sequence).limit(bindparam("most"))
