"""What the calls of a task cost."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, func, select

from backend.ledger.database import tables
from backend.ledger.database.number_sets import among
from backend.ledger.money.picodollars import from_picodollars

_calls, _shares = tables.calls.c, tables.call_shares.c


def spent_on_tasks(connection: Connection, project: str, tasks: Sequence[int]) -> dict[int, float]:
    """Return what was spent on each of these tasks, in $, with all failed calls; others are absent.

    A task has its share of a call that was for several.
    """
    alone = (
        select(_calls.task, func.sum(_calls.cost).label("cost"))
        .where(_calls.project == project, among(connection.dialect, _calls.task, tasks))
        .where(_calls.cost.is_not(None), _calls.tasks == 1)
        .group_by(_calls.task)
    )
    shared = (
        select(_shares.task, func.sum(_calls.cost * _shares.share).label("cost"))
        .where(_shares.project == project, among(connection.dialect, _shares.task, tasks))
        .where(_calls.id == _shares.call, _calls.cost.is_not(None))
        .group_by(_shares.task)
    )
    spent: dict[int, int] = {}
    for query in (alone, shared):
        for row in connection.execute(query):
            spent[row.task] = spent.get(row.task, 0) + round(row.cost)
    return {task: from_picodollars(cost) for task, cost in spent.items()}
