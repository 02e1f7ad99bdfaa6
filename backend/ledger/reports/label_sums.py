"""What a question's labels are like: their scores, and how cost and accuracy went from block to block."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Integer, and_, cast, func, select

from backend.ledger.database import tables
from backend.ledger.recounts import checks
from backend.ledger.recounts import rows as recounts

_columns = tables.rounds.c

SCORE_BINS = 100
"""Number of equally wide bins into which :func:`count_scores` sorts."""

BLOCKS = 20
"""Number of blocks of :func:`sum_blocks`."""


def count_scores(connection: Connection, project: str, control: str, epoch: str) -> list[int]:
    """Count a question's labels in an epoch by the bin of their latest score: :data:`SCORE_BINS` numbers."""
    score = checks.latest_score() if recounts.is_recounted(connection, project) else _columns.score
    place = score * SCORE_BINS
    # SQLite's cast cuts the decimals off, PostgreSQL's rounds
    whole = place if connection.dialect.name == "sqlite" else func.floor(place)
    number = cast(whole, Integer).label("bin")
    query = (
        select(number, func.count().label("labels"))
        .where(of_question(project, control, epoch))
        .group_by(number)
    )
    counts = [0] * SCORE_BINS
    for place_, labels in connection.execute(query):
        counts[min(place_, SCORE_BINS - 1)] += labels
    return counts


@dataclass(frozen=True, slots=True)
class CheckedRow:
    """A label with a human answer.

    Attributes:
        audit: whether its prediction was held back for blind labelling.
        score: its score by the latest counting, which did not know the human label.
        confirmed: the agreement of that counting's label with the human label, in [0, 1].
    """

    audit: bool
    score: float
    confirmed: float


def checked_labels(connection: Connection, project: str, control: str, epoch: str) -> list[CheckedRow]:
    """Return a question's labels with a human answer in an epoch, in the order of their prediction."""
    score: ColumnElement[float] = _columns.score
    confirmed: ColumnElement[float] = _columns.confirmed
    if recounts.is_recounted(connection, project):
        score, confirmed = checks.latest_score(), checks.latest_confirmed()
    query = (
        select(_columns.audit, score.label("score"), confirmed.label("confirmed"))
        .where(of_question(project, control, epoch), _columns.confirmed.is_not(None))
        .order_by(_columns.created_at, _columns.score, _columns.confirmed)
    )
    return [CheckedRow(**row._mapping) for row in connection.execute(query)]


@dataclass(frozen=True, slots=True)
class BlockRow:
    """Rounds that follow one another.

    Attributes:
        rounds: their number.
        cost_usd: what they cost, in $.
        full_cost_usd: what they would have cost if every model had been asked, in $.
        checked: how many of their labels have a human answer.
        confirmed: the sum of these labels' agreement with it.
        last_at: unix seconds of the last of them.
    """

    rounds: int
    cost_usd: float
    full_cost_usd: float
    checked: int
    confirmed: float
    last_at: float


def sum_blocks(connection: Connection, project: str, control: str, epoch: str) -> list[BlockRow]:
    """Sum a question's rounds in an epoch by :data:`BLOCKS` blocks of the same size, in their order."""
    block = func.ntile(BLOCKS).over(order_by=_columns.created_at).label("block")
    fields = (_columns.cost_usd, _columns.full_cost_usd, _columns.confirmed, _columns.created_at)
    numbered = select(block, *fields).where(of_question(project, control, epoch)).subquery()
    query = (
        select(
            func.count().label("rounds"),
            func.sum(numbered.c.cost_usd).label("cost_usd"),
            func.sum(numbered.c.full_cost_usd).label("full_cost_usd"),
            func.count(numbered.c.confirmed).label("checked"),
            func.coalesce(func.sum(numbered.c.confirmed), 0.0).label("confirmed"),
            func.max(numbered.c.created_at).label("last_at"),
        )
        .group_by(numbered.c.block)
        .order_by(numbered.c.block)
    )
    return [BlockRow(**row._mapping) for row in connection.execute(query)]


def of_question(project: str, control: str, epoch: str) -> ColumnElement[bool]:
    """The condition that a round is about one question in one epoch."""
    return and_(_columns.project == project, _columns.control == control, _columns.epoch == epoch)
