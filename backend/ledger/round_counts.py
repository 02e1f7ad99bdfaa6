"""Counts of rounds, for those who watch a run."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from backend.ledger.database import tables

_table = tables.rounds


def newest(connection: Connection, project: str) -> int:
    """Return the number of a project's latest round, 0 if it has none."""
    query = select(func.max(_table.c.id)).where(_table.c.project == project)
    return connection.scalars(query).one() or 0


def count_tasks(connection: Connection, project: str, after: int, first: int, last: int | None) -> int:
    """Count the tasks with a round later than ``after`` whose numbers are in a range.

    Args:
        connection: a read transaction.
        project: the project's key.
        after: the number of a round; only later ones count.
        first: the lowest number of a task.
        last: the highest number of a task; ``None`` for no end.
    """
    query = select(func.count(_table.c.task.distinct())).where(
        _table.c.project == project, _table.c.id > after, _table.c.task >= first
    )
    if last is not None:
        query = query.where(_table.c.task <= last)
    return connection.scalars(query).one()
