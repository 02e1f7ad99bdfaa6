"""Tasks whose packed vote was compared with the vote of the same model asked about that task alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, func, select

from backend.ledger.database import tables
from backend.ledger.database.number_sets import among
from backend.ledger.database.upsert import insert_new
from backend.ledger.rounds import RoundKey

_table = tables.pack_checks
_OF_PROJECT = _table.c.project == bindparam("of")
_COUNT = select(func.count(), func.max(_table.c.id)).where(_OF_PROJECT)
_ALL = (
    select(_table.c.control, _table.c.epoch, _table.c.arm, _table.c.agreed)
    .where(_OF_PROJECT)
    .order_by(_table.c.id)
)


@dataclass(frozen=True, slots=True)
class PackCheck:
    """One comparison.

    Attributes:
        control: the question's control.
        epoch: its epoch.
        arm: the packed arm.
        agreed: whether both votes were the same.
    """

    control: str
    epoch: str
    arm: str
    agreed: bool


def record(connection: Connection, key: RoundKey, arm: str, *, agreed: bool, now: float) -> None:
    """Record a comparison; a task that was compared before keeps its first one."""
    row = {
        "project": key.project,
        "control": key.control,
        "epoch": key.epoch,
        "arm": arm,
        "task": key.task,
        "agreed": agreed,
        "created_at": now,
    }
    connection.execute(insert_new(connection.dialect, _table), row)


def mark(connection: Connection, project: str) -> tuple[int, int | None]:
    """Return a value that changes with every comparison of a project."""
    row = connection.execute(_COUNT, {"of": project}).one()
    return int(row[0]), row[1]


def of_project(connection: Connection, project: str) -> list[PackCheck]:
    """Return a project's comparisons in the order in which they were recorded."""
    return [PackCheck(**row._mapping) for row in connection.execute(_ALL, {"of": project})]


def forget_tasks(connection: Connection, project: str, tasks: Sequence[int]) -> None:
    """Delete tasks' comparisons."""
    of_tasks = among(connection.dialect, _table.c.task, tasks)
    connection.execute(delete(_table).where(_table.c.project == project, of_tasks))
