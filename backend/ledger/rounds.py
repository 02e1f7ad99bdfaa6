"""Rounds: the record of one question of one task being planned, asked and decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from itertools import groupby
from typing import Any, Literal

import numpy as np
from sqlalchemy import Connection, Dialect, Row, bindparam, delete, select, update
from sqlalchemy.sql.dml import ReturningInsert

from backend.errors import LedgerError
from backend.ledger.database import tables
from backend.ledger.database.upsert import insert_new
from camvo.typing import Array

_table = tables.rounds

_TASKS_A_QUERY = 500
_FIND = select(_table).where(
    _table.c.project == bindparam("of"), _table.c.task.in_(bindparam("tasks", expanding=True))
)

Teacher = Literal["vote", "human"]


@dataclass(frozen=True, slots=True, order=True)
class RoundKey:
    """What makes a round the same round: asking it again finds the first one.

    ``question`` is the hash of what the models were shown; ``epoch`` changes with the question's labels, the
    prompt or the embedder.
    """

    project: str
    task: int
    control: str
    question: str
    epoch: str


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Round:
    """One finished round.

    Attributes:
        key: which round it is.
        plan: the plan as JSON, with the policy's own ``score`` before it was calibrated.
        votes: arm → label, ``None`` where the model brought no vote.
        label: the voted label.
        score: the probability that it is right, in [0, 1].
        cost_usd: what the round's calls cost, in $.
        full_cost_usd: what asking every model would have cost, in $.
        audit: whether the prediction was held back for blind labelling.
        taught: the label that the rewards in the state were computed with, ``None`` when nothing was taught.
        taught_by: whose label that is.
        context: e_t, shape (d,), float64; stored as float32 where that loses nothing.
        created_at: unix seconds.
        human: the humans' label, whether or not it teaches; ``None`` while there is none.
        confirmed: how right the voted label is by the human one, in [0, 1].
        id: the row's number, 0 before it is stored; never used again.
    """

    key: RoundKey
    plan: Mapping[str, Any]
    votes: Mapping[str, str | None]
    label: str
    score: float
    cost_usd: float
    full_cost_usd: float
    audit: bool
    taught: str | None
    taught_by: Teacher | None
    context: Array
    created_at: float
    human: str | None = None
    confirmed: float | None = None
    id: int = 0


def find(connection: Connection, keys: Sequence[RoundKey]) -> dict[RoundKey, Round]:
    """The rounds that are stored, by key; keys without a round are absent."""
    wanted = set(keys)
    found: dict[RoundKey, Round] = {}
    for project, of_project_keys in groupby(sorted(wanted), key=lambda key: key.project):
        tasks = sorted({key.task for key in of_project_keys})
        for start in range(0, len(tasks), _TASKS_A_QUERY):
            of = {"of": project, "tasks": tasks[start : start + _TASKS_A_QUERY]}
            rounds = (_round(row) for row in connection.execute(_FIND, of))
            found |= {round_.key: round_ for round_ in rounds if round_.key in wanted}
    return found


def insert(connection: Connection, round_: Round) -> int:
    """Store a new round and return its id.

    Raises:
        LedgerError: the round is there already; ``find`` it first, in the same transaction.
    """
    row = {field.name: getattr(round_, field.name) for field in fields(Round)}
    del row["id"], row["key"]
    row |= {field.name: getattr(round_.key, field.name) for field in fields(RoundKey)}
    row["context"] = _pack(round_.context)
    round_id = connection.execute(_insert(connection.dialect), row).scalar_one_or_none()
    if round_id is None:
        raise LedgerError(
            "the round is in the ledger already",
            where=f"project {round_.key.project}, task {round_.key.task}, control {round_.key.control}",
            fix="find it first, in the same transaction",
        )
    return int(round_id)


@cache
def _insert(dialect: Dialect) -> ReturningInsert[Any]:
    return insert_new(dialect, _table).returning(_table.c.id)


def of_task(connection: Connection, project: str, task: int) -> list[Round]:
    """Every round of a task, of all controls and epochs, the oldest first."""
    query = select(_table).where(_table.c.project == project, _table.c.task == task).order_by(_table.c.id)
    return [_round(row) for row in connection.execute(query)]


def of_project(connection: Connection, project: str, *, page: int = 500) -> Iterator[Round]:
    """Every round of a project, the oldest first, fetched ``page`` at a time."""
    last = 0
    while True:
        rows = connection.execute(
            select(_table)
            .where(_table.c.project == project, _table.c.id > last)
            .order_by(_table.c.id)
            .limit(page)
        ).all()
        yield from (_round(row) for row in rows)
        if len(rows) < page:
            return
        last = rows[-1].id


def contexts(connection: Connection, ids: Sequence[int]) -> list[Array]:
    """The contexts of these rounds, in the order of ``ids``."""
    found: dict[int, Array] = {}
    for start in range(0, len(ids), _TASKS_A_QUERY):
        query = select(_table.c.id, _table.c.context).where(
            _table.c.id.in_(ids[start : start + _TASKS_A_QUERY])
        )
        found |= {row.id: unpack(row.context) for row in connection.execute(query)}
    return [found[number] for number in ids]


def set_taught(connection: Connection, round_id: int, label: str | None, by: Teacher | None) -> None:
    """Record which label the rewards in the state come from by now."""
    connection.execute(update(_table).where(_table.c.id == round_id).values(taught=label, taught_by=by))


def set_human(connection: Connection, round_id: int, label: str | None, confirmed: float | None) -> None:
    """Record what the humans say by now, and how right that makes the voted label."""
    connection.execute(update(_table).where(_table.c.id == round_id).values(human=label, confirmed=confirmed))


def forget_task(connection: Connection, project: str, task: int) -> int:
    """Delete a task's rounds and return how many there were; what they taught stays, as events."""
    return connection.execute(
        delete(_table).where(_table.c.project == project, _table.c.task == task)
    ).rowcount


def _round(row: Row[Any]) -> Round:
    values = dict(row._mapping)
    key = RoundKey(**{field.name: values.pop(field.name) for field in fields(RoundKey)})
    return Round(key=key, **(values | {"context": unpack(values["context"])}))


def _pack(context: Array) -> bytes:
    """The dtype's three letters, then the numbers."""
    dtype = "<f4" if np.array_equal(context.astype("<f4").astype(np.float64), context) else "<f8"
    return dtype.encode() + context.astype(dtype).tobytes()


def unpack(data: bytes) -> Array:
    """A context as it is stored."""
    return np.frombuffer(data[3:], data[:3].decode()).astype(np.float64)
