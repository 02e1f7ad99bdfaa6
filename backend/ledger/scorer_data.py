"""The rounds from which a question's scorer is fitted: votes, voted label and human confirmation.

Of blind rounds only the votes are used: their human labels certify the scores, so they must not teach them.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import ColumnElement, Connection, and_, case, func, select

from backend.ledger.database import tables
from camvo.scores.scorer import MOST_CONFIRMED, MOST_ROUNDS, FinishedRound

_columns = tables.rounds.c
_taught = case((~_columns.audit, _columns.confirmed))


def count_rounds(connection: Connection, project: str, control: str, epoch: str) -> tuple[int, int]:
    """Count a question's rounds in an epoch: all of them, and those whose human label teaches."""
    query = select(func.count(), func.count(_taught)).where(_of(project, control, epoch))
    rounds, confirmed = connection.execute(query).one()
    return rounds, confirmed


def latest_rounds(
    connection: Connection, project: str, control: str, epoch: str, unanswered: Collection[int] = ()
) -> list[FinishedRound]:
    """Return a question's latest rounds and its latest rounds that people teach, each once, oldest first.

    Rounds whose id is among ``unanswered`` count as if nobody had answered them.
    """
    of_question, teaches = _of(project, control, epoch), _taught.is_not(None)
    query = (
        select(_columns.id, _columns.votes, _columns.label, _taught.label("confirmed"))
        .where(of_question)
        .order_by(_columns.id.desc())
    )
    rows = {row.id: row for row in connection.execute(query.limit(MOST_ROUNDS))}
    rows |= {row.id: row for row in connection.execute(query.where(teaches).limit(MOST_CONFIRMED))}
    return [
        FinishedRound(row.votes, row.label, None if row.id in unanswered else row.confirmed)
        for _, row in sorted(rows.items())
    ]


def _of(project: str, control: str, epoch: str) -> ColumnElement[bool]:
    return and_(_columns.project == project, _columns.control == control, _columns.epoch == epoch)
