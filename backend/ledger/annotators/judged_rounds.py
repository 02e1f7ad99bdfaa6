"""Judged rounds: the latest round of a question on each task that people have annotated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, select

from backend.ledger.database import tables

_columns, _annotations = tables.rounds.c, tables.human_annotations.c


@dataclass(frozen=True, slots=True)
class JudgedRound:
    """A round of an annotated task, without its plan.

    Attributes:
        task: the task's number.
        votes: arm → label, ``None`` where the model gave no vote.
        label: the voted label.
        score: the probability that the voted label is right, in [0, 1].
        audit: whether the prediction was held back for blind labelling.
        human: the human label; ``None`` while there is none.
    """

    task: int
    votes: Mapping[str, str | None]
    label: str
    score: float
    audit: bool
    human: str | None


def latest_judged(connection: Connection, project: str, control: str, epoch: str) -> dict[int, JudgedRound]:
    """Return task → the latest round of a question in an epoch, for tasks with an annotation that stands."""
    annotated = select(_annotations.task).where(
        _annotations.project == project,
        ~_annotations.deleted,
        ~_annotations.withdrawn,
        _annotations.task.is_not(None),
    )
    fields = [_columns[name] for name in JudgedRound.__dataclass_fields__]
    query = select(*fields).where(
        _columns.project == project,
        _columns.control == control,
        _columns.epoch == epoch,
        _columns.task.in_(annotated),
    )
    rows = connection.execute(query.order_by(_columns.id))
    return {row.task: JudgedRound(**row._mapping) for row in rows}
