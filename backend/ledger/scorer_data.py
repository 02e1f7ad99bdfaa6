"""The rounds from which a question's scorer is fitted: votes, voted label and human confirmation."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, and_, func, select

from backend.ledger.database import tables
from camvo.scores.scorer import MOST_CONFIRMED, MOST_ROUNDS, FinishedRound

_columns = tables.rounds.c


def count_rounds(connection: Connection, project: str, control: str, epoch: str) -> tuple[int, int]:
    """Count a question's rounds in an epoch: all of them, and those with a human label."""
    query = select(func.count(), func.count(_columns.confirmed)).where(_of(project, control, epoch))
    rounds, confirmed = connection.execute(query).one()
    return rounds, confirmed


def latest_rounds(connection: Connection, project: str, control: str, epoch: str) -> list[FinishedRound]:
    """Return a question's latest rounds and its latest human-labelled rounds, each once, oldest first."""
    of_question, is_confirmed = _of(project, control, epoch), _columns.confirmed.is_not(None)
    query = (
        select(_columns.id, _columns.votes, _columns.label, _columns.confirmed)
        .where(of_question)
        .order_by(_columns.id.desc())
    )
    rows = {row.id: row for row in connection.execute(query.limit(MOST_ROUNDS))}
    rows |= {row.id: row for row in connection.execute(query.where(is_confirmed).limit(MOST_CONFIRMED))}
    return [FinishedRound(row.votes, row.label, row.confirmed) for _, row in sorted(rows.items())]


def _of(project: str, control: str, epoch: str) -> ColumnElement[bool]:
    return and_(_columns.project == project, _columns.control == control, _columns.epoch == epoch)
