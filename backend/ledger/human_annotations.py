"""Human annotations: what people said, as Label Studio told it, in whatever order it did.

Plainly "annotations" it cannot be called: that is a name which every module imports ``from __future__``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, select, update

from backend.ledger.database import tables
from backend.ledger.database.upsert import insert_or_replace

_table = tables.human_annotations
_OF_TASK = (
    select(_table)
    .where(_table.c.project == bindparam("of"), _table.c.task == bindparam("number"), ~_table.c.deleted)
    .order_by(_table.c.annotation_id)
)
_STORED = select(_table.c.task, _table.c.updated_at, _table.c.deleted).where(
    _table.c.project == bindparam("of"), _table.c.annotation_id == bindparam("number")
)

_EMPTIED: Final[dict[str, Any]] = {
    "labels": {},
    "ground_truth": False,
    "teaches": False,
    "origin": None,
    "prediction_shown": False,
    "completed_by": None,
    "deleted": True,
}
"""What is left of a deleted annotation: its id, so that a late webhook does not bring it back."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """One annotation of one task.

    Attributes:
        project: the project's key.
        annotation_id: Label Studio's number.
        task: the task's number.
        updated_at: Label Studio's ISO time, as it came.
        labels: control → the answer, in the form of a vote.
        ground_truth: whether it was marked so.
        teaches: whether it may become a reward: not if skipped or made in bulk from predictions.
        origin: how the form was left: "manual", "prediction", "prediction-changed" or unknown.
        prediction_shown: whether the form was filled with a prediction.
        completed_by: the user's number.
        deleted: whether only the tombstone is left.
        received_at: unix seconds; set when it is stored.
    """

    project: str
    annotation_id: int
    task: int | None
    updated_at: str
    labels: Mapping[str, str]
    ground_truth: bool = False
    teaches: bool = True
    origin: str | None = None
    prediction_shown: bool = False
    completed_by: int | None = None
    deleted: bool = False
    received_at: float = 0.0


def put(connection: Connection, annotation: Annotation, now: float) -> bool:
    """Store an annotation, unless what is stored is the same, newer or deleted.

    Label Studio promises neither order nor a single delivery: an annotation is identified by its id and
    ``updated_at``. A time that cannot be read counts as the oldest.

    Returns:
        Whether it was stored.
    """
    key = {"of": annotation.project, "number": annotation.annotation_id}
    stored = connection.execute(_STORED, key).one_or_none()
    if stored is not None and (stored.deleted or _time(annotation.updated_at) <= _time(stored.updated_at)):
        return False
    values = {field.name: getattr(annotation, field.name) for field in fields(Annotation)}
    values |= {"labels": dict(annotation.labels), "received_at": now}
    connection.execute(insert_or_replace(connection.dialect, _table), values)
    return True


def delete(connection: Connection, project: str, ids: Collection[int], now: float) -> list[int]:
    """Withdraw annotations, known or not: a creation that arrives later finds the tombstone.

    Returns:
        The tasks that lost an annotation, in ascending order.
    """
    affected: set[int] = set()
    for annotation_id in dict.fromkeys(ids):
        stored = connection.execute(_STORED, {"of": project, "number": annotation_id}).one_or_none()
        if stored is not None and not stored.deleted and stored.task is not None:
            affected.add(stored.task)
        tombstone: dict[str, Any] = {
            "project": project,
            "annotation_id": annotation_id,
            "task": stored.task if stored else None,
            "updated_at": stored.updated_at if stored else "",
            "received_at": now,
        }
        connection.execute(insert_or_replace(connection.dialect, _table), tombstone | _EMPTIED)
    return sorted(affected)


def of_task(connection: Connection, project: str, task: int) -> list[Annotation]:
    """A task's annotations that were not deleted, ordered by id."""
    rows = connection.execute(_OF_TASK, {"of": project, "number": task})
    return [_annotation(row) for row in rows]


def tasks(connection: Connection, project: str) -> list[int]:
    """The tasks that anybody ever annotated, in ascending order; those whose annotations are gone too."""
    query = select(_table.c.task).where(_table.c.project == project, _table.c.task.is_not(None)).distinct()
    return list(connection.scalars(query.order_by(_table.c.task)))


def numbers(connection: Connection, project: str) -> frozenset[int]:
    """The ids of all annotations of a project that were not deleted."""
    query = select(_table.c.annotation_id).where(_table.c.project == project, ~_table.c.deleted)
    return frozenset(connection.scalars(query))


def forget_task(connection: Connection, project: str, task: int) -> int:
    """Empty a deleted task's annotations down to their tombstones, and return how many there were."""
    return connection.execute(
        update(_table)
        .where(_table.c.project == project, _table.c.task == task, ~_table.c.deleted)
        .values(**_EMPTIED)
    ).rowcount


def _annotation(row: Row[Any]) -> Annotation:
    return Annotation(**row._mapping)


def _time(text: str) -> datetime:
    """Label Studio's ISO time; its fraction is missing when it is zero, so texts do not sort as times do."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return time if time.tzinfo else time.replace(tzinfo=UTC)
