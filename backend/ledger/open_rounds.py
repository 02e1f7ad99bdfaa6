"""What waits for a human: of each task that nobody has annotated, the latest round of each question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, and_, func, select

from backend.ledger.database import tables

_columns, _annotations = tables.rounds.c, tables.human_annotations.c

MOST_LABELLED = 2000
"""The latest rounds with a human label whose contexts are read: what is new to so many is new to more."""


@dataclass(frozen=True, slots=True)
class OpenRound:
    """A round without a human label; ``id`` is its number in the ledger."""

    id: int
    task: int
    votes: Mapping[str, str | None]
    label: str
    score: float


def epochs(connection: Connection, project: str) -> dict[str, str]:
    """Control → the epoch of its latest round."""
    latest = select(func.max(_columns.id)).where(_columns.project == project).group_by(_columns.control)
    query = select(_columns.control, _columns.epoch).where(_columns.id.in_(latest.scalar_subquery()))
    return {row.control: row.epoch for row in connection.execute(query)}


def find(connection: Connection, project: str, control: str, epoch: str) -> list[OpenRound]:
    """The latest round of each task that nobody has annotated; those kept blind for an audit are absent.

    A task that somebody skipped counts as annotated.
    """
    fields = (_columns.id, _columns.task, _columns.votes, _columns.label, _columns.score)
    query = select(*fields).where(_of(project, control, epoch), ~_columns.audit, _open(project))
    found = connection.execute(query.order_by(_columns.id))
    return list({row.task: OpenRound(**row._mapping) for row in found}.values())


def blind(connection: Connection, project: str) -> int:
    """How many tasks are kept blind for an audit and wait for a label."""
    query = select(func.count(_columns.task.distinct())).where(
        _columns.project == project, _columns.audit, _open(project)
    )
    return connection.scalars(query).one()


def labelled(connection: Connection, project: str, control: str, epoch: str) -> list[int]:
    """The ids of the latest rounds with a human label."""
    query = select(_columns.id).where(_of(project, control, epoch), _columns.human.is_not(None))
    return list(connection.scalars(query.order_by(_columns.id.desc()).limit(MOST_LABELLED)))


def _of(project: str, control: str, epoch: str) -> ColumnElement[bool]:
    return and_(_columns.project == project, _columns.control == control, _columns.epoch == epoch)


def _open(project: str) -> ColumnElement[bool]:
    annotated = select(_annotations.task).where(
        _annotations.project == project, ~_annotations.deleted, _annotations.task.is_not(None)
    )
    return _columns.task.not_in(annotated)
