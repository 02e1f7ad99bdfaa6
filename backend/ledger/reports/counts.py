"""Counts of rounds and of what they cost."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from backend.ledger.database import tables
from backend.ledger.money.accounts import EVERY_PROJECT, TOTAL
from backend.ledger.money.picodollars import from_picodollars

_table, _accounts = tables.rounds, tables.accounts


def newest(connection: Connection, project: str) -> int:
    """Return the number of a project's latest round, 0 if it has none."""
    query = select(func.max(_table.c.id)).where(_table.c.project == project)
    return connection.scalars(query).one() or 0


def newest_at(connection: Connection, project: str) -> float:
    """Return when a project's latest round was stored, in unix seconds; 0 if it has none."""
    query = select(func.max(_table.c.created_at)).where(_table.c.project == project)
    return connection.scalars(query).one() or 0.0


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


def paid_tasks(connection: Connection) -> tuple[int, float]:
    """Return how many tasks of all projects have a round, and what all calls have cost so far, in $."""
    tasks = select(_table.c.project, _table.c.task).distinct().subquery()
    count = connection.scalars(select(func.count()).select_from(tasks)).one()
    total = select(func.coalesce(func.sum(_accounts.c.spent), 0)).where(
        _accounts.c.scope == TOTAL, _accounts.c.project != EVERY_PROJECT
    )
    return count, from_picodollars(int(connection.scalars(total).one()))
