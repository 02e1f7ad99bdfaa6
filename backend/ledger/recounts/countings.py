"""Countings: when and why a project's votes were counted again, and what another counting would change."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Literal

from sqlalchemy import Connection, func, insert, select

from backend.ledger.database import tables
from backend.ledger.database.upsert import insert_or_replace

_countings, _looks = tables.countings, tables.recount_looks

Reason = Literal["command", "training", "automatic"]
"""Why a counting was made: ``camvo predict``, *Start training*, or because it was worth it."""


@dataclass(frozen=True, slots=True)
class Counting:
    """One counting of a project.

    Attributes:
        number: 1, 2, 3 … within the project.
        reason: why it was made.
        sequence: the project's last event that it knew.
        counted: how many rounds were counted.
        labels: how many labels changed.
        scores: how many labels stayed and got another score.
        created_at: unix seconds.
    """

    number: int
    reason: Reason
    sequence: int
    counted: int
    labels: int
    scores: int
    created_at: float


@dataclass(frozen=True, slots=True)
class Look:
    """What a counting would have changed when the server last looked.

    Attributes:
        looked_at: unix seconds by the database's clock.
        seconds: how long it took.
        sequence: the project's last event that it knew.
        counted: how many rounds were counted.
        labels: how many labels would have changed.
        score_change: by how much the scores would have changed, on average over all that were counted.
        by_hand: whether the change is worth a counting and waits for a command, since the server has no key
            for Label Studio.
    """

    looked_at: float
    seconds: float
    sequence: int
    counted: int
    labels: int
    score_change: float
    by_hand: bool = False


def next_number(connection: Connection, project: str) -> int:
    """Return the number of the project's next counting."""
    newest = select(func.coalesce(func.max(_countings.c.number), 0)).where(_countings.c.project == project)
    return int(connection.scalars(newest).one()) + 1


def store(connection: Connection, project: str, counting: Counting) -> None:
    """Store a counting, with the number of :func:`next_number` in the same transaction."""
    connection.execute(insert(_countings), {"project": project, **asdict(counting)})


def of_project(connection: Connection, project: str) -> list[Counting]:
    """Return a project's countings, the latest first."""
    names = [_countings.c[field.name] for field in fields(Counting)]
    query = select(*names).where(_countings.c.project == project).order_by(_countings.c.number.desc())
    return [Counting(**row._mapping) for row in connection.execute(query)]


def last_look(connection: Connection, project: str) -> Look | None:
    """Return what the server last saw that a counting would change; ``None`` before the first look."""
    names = [_looks.c[field.name] for field in fields(Look)]
    row = connection.execute(select(*names).where(_looks.c.project == project)).one_or_none()
    return None if row is None else Look(**row._mapping)


def remember_look(connection: Connection, project: str, look: Look) -> None:
    """Replace what the server last saw."""
    row = {"project": project, **asdict(look)}
    connection.execute(insert_or_replace(connection.dialect, _looks), row)
