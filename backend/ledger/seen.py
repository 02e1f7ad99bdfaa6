"""Rounds as scores are learnt from: the votes, the label decided, and how right it was."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, and_, func, select

from backend.ledger.database import tables
from camvo.scores.scorer import MOST_CONFIRMED, MOST_ROUNDS, FinishedRound

_columns = tables.rounds.c


def counts(connection: Connection, project: str, control: str, epoch: str) -> tuple[int, int]:
    """How many rounds a question has in an epoch, and how many of them have a human label."""
    query = select(func.count(), func.count(_columns.confirmed)).where(_of(project, control, epoch))
    rounds, confirmed = connection.execute(query).one()
    return rounds, confirmed


def latest(connection: Connection, project: str, control: str, epoch: str) -> list[FinishedRound]:
    """What a scorer is fitted to: a question's latest rounds and its latest with a human label, each once."""
    of, there = _of(project, control, epoch), _columns.confirmed.is_not(None)
    query = select(_columns.id, _columns.votes, _columns.label, _columns.confirmed).order_by(
        _columns.id.desc()
    )
    rows = {row.id: row for row in connection.execute(query.where(of).limit(MOST_ROUNDS))}
    rows |= {row.id: row for row in connection.execute(query.where(of, there).limit(MOST_CONFIRMED))}
    return [FinishedRound(row.votes, row.label, row.confirmed) for _, row in sorted(rows.items())]


def _of(project: str, control: str, epoch: str) -> ColumnElement[bool]:
    return and_(_columns.project == project, _columns.control == control, _columns.epoch == epoch)
