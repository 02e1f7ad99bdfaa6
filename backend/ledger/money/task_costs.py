"""What the calls of a task cost."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, func, select

from backend.ledger.database import tables
from backend.ledger.database.number_sets import among
from backend.ledger.money.picodollars import from_picodollars

_calls = tables.calls


def spent_on_tasks(connection: Connection, project: str, tasks: Sequence[int]) -> dict[int, float]:
    """Return what was spent on each of these tasks, in $, with all failed calls; others are absent."""
    query = (
        select(_calls.c.task, func.sum(_calls.c.cost).label("cost"))
        .where(_calls.c.project == project, among(connection.dialect, _calls.c.task, tasks))
        .where(_calls.c.cost.is_not(None))
        .group_by(_calls.c.task)
    )
    return {row.task: from_picodollars(int(row.cost)) for row in connection.execute(query)}
