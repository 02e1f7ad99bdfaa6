"""What people said about a project, summed."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, case, func, select

from backend.ledger.database import tables

_annotations = tables.human_annotations


@dataclass(frozen=True, slots=True)
class HumansRow:
    """What people said about a project.

    Attributes:
        annotations: those that were not deleted.
        teaching: those among them that may become a reward.
        tasks: tasks that have such a one.
        ground_truths: those marked as ground truth.
        last_at: unix seconds when the latest arrived, ``None`` before the first.
    """

    annotations: int
    teaching: int
    tasks: int
    ground_truths: int
    last_at: float | None


def humans(connection: Connection, project: str) -> HumansRow:
    """The human annotations of a project."""
    columns = _annotations.c
    query = select(
        func.count().label("annotations"),
        func.count(case((columns.teaches, 1))).label("teaching"),
        func.count(case((columns.teaches, columns.task)).distinct()).label("tasks"),
        func.count(case((columns.ground_truth, 1))).label("ground_truths"),
        func.max(columns.received_at).label("last_at"),
    ).where(columns.project == project, ~columns.deleted)
    return HumansRow(**connection.execute(query).one()._mapping)
