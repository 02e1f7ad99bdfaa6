"""The rounds from which a question's scorer is fitted: votes, voted label and human confirmation.

Of blind rounds only the votes are used: their human labels certify the scores, so they must not teach them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

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


def latest_rounds(  # noqa: PLR0917 - a question, and what is to differ from the ledger
    connection: Connection,
    project: str,
    control: str,
    epoch: str,
    unanswered: Collection[int] = (),
    recounted: Mapping[int, tuple[str, float]] = MappingProxyType({}),
) -> list[FinishedRound]:
    """Return a question's latest rounds and its latest rounds that people teach, each once, oldest first.

    Args:
        connection: the ledger.
        project: the project's key.
        control: the control tag.
        epoch: the epoch.
        unanswered: the ids of rounds that count as if nobody had answered them.
        recounted: round → another label for a round that people teach, and its agreement with the answer.
    """
    of_question, teaches = _of(project, control, epoch), _taught.is_not(None)
    query = (
        select(_columns.id, _columns.votes, _columns.label, _taught.label("confirmed"))
        .where(of_question)
        .order_by(_columns.id.desc())
    )
    rows = {row.id: row for row in connection.execute(query.limit(MOST_ROUNDS))}
    rows |= {row.id: row for row in connection.execute(query.where(teaches).limit(MOST_CONFIRMED))}

    def finished(row: Any) -> FinishedRound:
        if row.confirmed is None or row.id in unanswered:
            return FinishedRound(row.votes, row.label)
        return FinishedRound(row.votes, *recounted.get(row.id, (row.label, row.confirmed)))

    return [finished(row) for _, row in sorted(rows.items())]


def _of(project: str, control: str, epoch: str) -> ColumnElement[bool]:
    return and_(_columns.project == project, _columns.control == control, _columns.epoch == epoch)
