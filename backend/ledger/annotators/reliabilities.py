"""How often each annotator is right, by question: every fit that was ever in force, numbered.

The latest fit weighs the people's answers. A fit is stored first and applied to the tasks afterwards, in many
transactions, so a row says whether that is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, func, select, update

from backend.ledger.database import tables
from backend.ledger.database.upsert import insert_new

_table = tables.reliabilities
_LATEST = (
    select(_table)
    .where(_table.c.project == bindparam("of"), _table.c.control == bindparam("name"))
    .order_by(_table.c.number.desc())
    .limit(bindparam("most"))
)


@dataclass(frozen=True, slots=True)
class StoredReliabilities:
    """One fit.

    Attributes:
        project: the project's key.
        control: the name of the question's control tag.
        number: 1 for the question's first fit, 2 for the next …
        accuracies: annotator's id → the probability that a label of theirs is right.
        annotations: how many annotations the project had.
        applied: whether every task's human label goes by it.
        created_at: unix seconds.
    """

    project: str
    control: str
    number: int
    accuracies: Mapping[str, float]
    annotations: int
    applied: bool
    created_at: float


def latest(connection: Connection, project: str, control: str, most: int = 1) -> list[StoredReliabilities]:
    """Return the latest fits of a question, at most ``most``, the newest first."""
    rows = connection.execute(_LATEST, {"of": project, "name": control, "most": most})
    return [StoredReliabilities(**row._mapping) for row in rows]


def store(connection: Connection, fit: StoredReliabilities) -> bool:
    """Store a fit, unless one of its number is there; return whether it was stored."""
    values = {name: getattr(fit, name) for name in StoredReliabilities.__dataclass_fields__}
    values["accuracies"] = dict(fit.accuracies)
    return connection.execute(insert_new(connection.dialect, _table), values).rowcount == 1


def set_applied(connection: Connection, fit: StoredReliabilities) -> None:
    """Record that every task's human label goes by a fit, so that no earlier one is left to apply."""
    connection.execute(
        update(_table)
        .where(
            _table.c.project == fit.project, _table.c.control == fit.control, _table.c.number <= fit.number
        )
        .values(applied=True)
    )


def fitted_on(connection: Connection, project: str) -> int:
    """Return how many annotations the project had at its latest fit of any question, 0 before the first."""
    query = select(func.coalesce(func.max(_table.c.annotations), 0)).where(_table.c.project == project)
    newest = select(func.max(_table.c.created_at)).where(_table.c.project == project)
    return int(connection.scalars(query.where(_table.c.created_at == newest.scalar_subquery())).one())


def unapplied(connection: Connection) -> list[str]:
    """Return the projects with a fit that is not applied yet, in order."""
    query = select(_table.c.project).where(~_table.c.applied).distinct()
    return list(connection.scalars(query.order_by(_table.c.project)))
