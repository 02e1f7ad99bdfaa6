"""Counts of a project's human annotations."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, and_, case, exists, func, or_, select

from backend.ledger.database import tables

_annotations, _rounds = tables.human_annotations, tables.rounds


@dataclass(frozen=True, slots=True)
class HumansRow:
    """Counts of a project's human annotations.

    Attributes:
        annotations: annotations that are not deleted.
        teaching: those that teach, or will once their task has a round; not those that are tied.
        tasks: tasks with at least one such annotation.
        ground_truths: those marked as ground truth.
        withdrawn: those that ``camvo ledger forget`` has withdrawn; they are in no other count but the first.
        last_at: unix seconds when the latest arrived, ``None`` before the first.
    """

    annotations: int
    teaching: int
    tasks: int
    ground_truths: int
    withdrawn: int
    last_at: float | None


def sum_annotations(connection: Connection, project: str) -> HumansRow:
    """Count a project's human annotations."""
    columns = _annotations.c
    of_task = and_(_rounds.c.project == columns.project, _rounds.c.task == columns.task)
    decided = exists().where(of_task, _rounds.c.human.is_not(None))
    teaches = and_(columns.teaches, ~columns.withdrawn, or_(decided, ~exists().where(of_task)))
    query = select(
        func.count().label("annotations"),
        func.count(case((teaches, 1))).label("teaching"),
        func.count(case((teaches, columns.task)).distinct()).label("tasks"),
        func.count(case((and_(columns.ground_truth, ~columns.withdrawn), 1))).label("ground_truths"),
        func.count(case((columns.withdrawn, 1))).label("withdrawn"),
        func.max(columns.received_at).label("last_at"),
    ).where(columns.project == project, ~columns.deleted)
    return HumansRow(**connection.execute(query).one()._mapping)
