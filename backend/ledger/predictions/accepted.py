"""Accepted tasks: those whose prediction ``camvo accept`` turned into an annotation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from sqlalchemy import Connection, bindparam, delete, func, select, update

from backend.ledger.database import tables
from backend.ledger.database.number_sets import among
from backend.ledger.database.upsert import insert_or_replace

_table = tables.accepted
_OF_TASK = select(_table).where(_table.c.project == bindparam("of"), _table.c.task == bindparam("number"))


@dataclass(frozen=True, slots=True)
class Accepted:
    """One accepted task.

    Attributes:
        project: the project's key.
        task: the task's number.
        annotation_id: Label Studio's id of the annotation; ``None`` until it is known.
        labels: control → the accepted label.
        score: the prediction's score.
        certified: whether blind labels certified it.
        accepted_at: unix seconds.
    """

    project: str
    task: int
    annotation_id: int | None
    labels: Mapping[str, str]
    score: float
    certified: bool
    accepted_at: float


def store(connection: Connection, accepted: Sequence[Accepted]) -> None:
    """Store accepted tasks; an earlier record of a task is replaced."""
    for each in accepted:
        row = {field.name: getattr(each, field.name) for field in fields(Accepted)}
        connection.execute(insert_or_replace(connection.dialect, _table), row | {"labels": dict(each.labels)})


def set_annotation(connection: Connection, project: str, task: int, annotation_id: int) -> None:
    """Note which annotation an accepted task got."""
    connection.execute(
        update(_table)
        .where(_table.c.project == project, _table.c.task == task)
        .values(annotation_id=annotation_id)
    )


def of_project(connection: Connection, project: str) -> list[Accepted]:
    """Return a project's accepted tasks, by number."""
    query = select(_table).where(_table.c.project == project).order_by(_table.c.task)
    return [Accepted(**row._mapping) for row in connection.execute(query)]


def count(connection: Connection, project: str) -> int:
    """Count a project's accepted tasks."""
    query = select(func.count()).select_from(_table).where(_table.c.project == project)
    return connection.scalars(query).one()


def is_machine_label(
    connection: Connection, project: str, task: int, annotation_id: int, labels: Mapping[str, str]
) -> bool:
    """Whether an annotation is an accepted prediction that nobody has changed, however it is reported.

    The webhook may come before Label Studio has told which annotation it made; then the labels decide.
    """
    row = connection.execute(_OF_TASK, {"of": project, "number": task}).one_or_none()
    if row is None or row.annotation_id not in {None, annotation_id}:
        return False
    return dict(labels) == dict(row.labels)


def forget_tasks(connection: Connection, project: str, tasks: Sequence[int]) -> None:
    """Forget accepted tasks: they were deleted, or are no longer accepted."""
    chosen = among(connection.dialect, _table.c.task, tasks)
    connection.execute(delete(_table).where(_table.c.project == project, chosen))
