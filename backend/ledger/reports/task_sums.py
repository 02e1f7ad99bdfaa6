"""Counts of a project's tasks, and the labels of single ones; no query here reads every label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, or_, select

from backend.ledger.database import tables
from backend.ledger.database.number_sets import among
from backend.ledger.reports.label_sums import of_question

_columns, _annotations, _calls = tables.rounds.c, tables.human_annotations.c, tables.calls.c

LATEST = 2000
"""Labels at most that :func:`latest_labels` and :func:`judged_labels` read."""

_RECENT_CALLS = 1000


def count_tasks(connection: Connection, project: str, epochs: Mapping[str, str] | None = None) -> int:
    """Count the tasks with a label.

    Args:
        connection: a read transaction.
        project: the project's key.
        epochs: control → epoch: only labels of these epochs count; ``None`` for all labels.
    """
    query = select(func.count(_columns.task.distinct())).where(_columns.project == project)
    if epochs is not None:
        if not epochs:
            return 0
        query = query.where(or_(*(of_question(project, control, epoch) for control, epoch in epochs.items())))
    return connection.scalars(query).one()


def latest_labels(connection: Connection, project: str, control: str, epoch: str) -> Counter[str]:
    """Count the labels of a question's latest rounds in an epoch, at most :data:`LATEST` of them."""
    latest = (
        select(_columns.label)
        .where(of_question(project, control, epoch))
        .order_by(_columns.id.desc())
        .limit(LATEST)
        .subquery()
    )
    query = select(latest.c.label, func.count().label("labels")).group_by(latest.c.label)
    return Counter({row.label: row.labels for row in connection.execute(query)})


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """A voted label beside the human one.

    Attributes:
        task: the task's number.
        label: the voted label.
        human: the human label.
        score: the voted label's score.
        confirmed: the agreement of the two, in [0, 1].
    """

    task: int
    label: str
    human: str
    score: float
    confirmed: float


def judged_labels(connection: Connection, project: str, control: str, epoch: str) -> list[JudgedRow]:
    """Return a question's latest labels with a human answer in an epoch, at most :data:`LATEST`."""
    fields = (_columns.task, _columns.label, _columns.human, _columns.score, _columns.confirmed)
    query = (
        select(*fields)
        .where(
            of_question(project, control, epoch), _columns.confirmed.is_not(None), _columns.human.is_not(None)
        )
        .order_by(_columns.created_at.desc(), _columns.id.desc())
        .limit(LATEST)
    )
    return [JudgedRow(**row._mapping) for row in connection.execute(query)]


def annotators(connection: Connection, project: str, tasks: Sequence[int]) -> dict[int, int]:
    """Return task → how many annotations of it stand, for those of the tasks that have one."""
    query = (
        select(_annotations.task, func.count().label("annotations"))
        .where(
            _annotations.project == project,
            among(connection.dialect, _annotations.task, tasks),
            _annotations.teaches,
            ~_annotations.withdrawn,
            ~_annotations.deleted,
        )
        .group_by(_annotations.task)
    )
    return {row.task: row.annotations for row in connection.execute(query)}


def recent_outcomes(connection: Connection) -> dict[tuple[str, str], list[str | None]]:
    """Return (project, model) → the outcomes of its finished calls among the latest 1000 of all projects.

    An outcome is an error's code, or ``None`` for an answer; the latest come first.
    """
    latest = (
        select(_calls.id, _calls.project, _calls.model, _calls.state, _calls.error_code)
        .order_by(_calls.id.desc())
        .limit(_RECENT_CALLS)
        .subquery()
    )
    rows = connection.execute(
        select(latest.c.project, latest.c.model, latest.c.error_code)
        .where(latest.c.state == "settled")
        .order_by(latest.c.id.desc())
    )
    outcomes: dict[tuple[str, str], list[str | None]] = {}
    for project, model, code in rows:
        outcomes.setdefault((project, model), []).append(code)
    return outcomes
