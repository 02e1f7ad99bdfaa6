"""Sums over the prompts about several tasks, by packed arm."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from backend.ledger.database import tables
from backend.ledger.money.picodollars import from_picodollars

_calls = tables.calls.c


@dataclass(frozen=True, slots=True)
class PacksRow:
    """The answered prompts of one packed arm.

    Attributes:
        arm: the arm.
        prompts: how many there were.
        tasks: how many tasks they were about.
        cost_usd: what they cost, in $.
    """

    arm: str
    prompts: int
    tasks: int
    cost_usd: float


def sum_packs(connection: Connection, project: str) -> list[PacksRow]:
    """Sum a project's prompts about several tasks by arm, ordered by it."""
    query = (
        select(
            _calls.model,
            func.count().label("prompts"),
            func.sum(_calls.tasks).label("tasks"),
            func.sum(_calls.cost).label("cost"),
        )
        .where(_calls.project == project, _calls.tasks > 1)
        .where(_calls.state == "settled", _calls.error_code.is_(None))
        .group_by(_calls.model)
        .order_by(_calls.model)
    )
    return [
        PacksRow(row.model, row.prompts, int(row.tasks), from_picodollars(int(row.cost)))
        for row in connection.execute(query)
    ]
