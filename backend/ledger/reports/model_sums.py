"""A project's models, summed: what came of their votes, what their calls cost and how long they took."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sqlalchemy import Connection, and_, case, func, select

from backend.ledger.database import tables
from backend.ledger.money.picodollars import from_picodollars

_votes, _calls = tables.votes, tables.calls

LOST = "lost"
"""The reason of a call whose process died: nobody knows what became of it."""


@dataclass(frozen=True, slots=True)
class VotesRow:
    """What came of asking one model, apart for rounds that were kept blind.

    Attributes:
        model: its name in the pool.
        audit: whether the rounds' predictions were held back.
        asked: rounds in which it was asked.
        voted: those in which it gave a valid vote.
        compared: those in which another model voted too, and no vote had a say in who was asked.
        agreed: how well it agreed with the label voted, summed over these.
        checked: votes on which there is a human label, where it was asked whatever the votes.
        confirmed: how right these were, summed.
    """

    model: str
    audit: bool
    asked: int
    voted: int
    compared: int
    agreed: float
    checked: int
    confirmed: float


def votes(connection: Connection, project: str) -> list[VotesRow]:
    """A project's votes by model and audit, in this order."""
    columns = _votes.c
    query = (
        select(
            columns.model,
            columns.audit,
            func.count().label("asked"),
            func.count(case((columns.voted, 1))).label("voted"),
            func.count(columns.agreed).label("compared"),
            func.coalesce(func.sum(columns.agreed), 0.0).label("agreed"),
            func.count(columns.confirmed).label("checked"),
            func.coalesce(func.sum(columns.confirmed), 0.0).label("confirmed"),
        )
        .where(columns.project == project)
        .group_by(columns.model, columns.audit)
        .order_by(columns.model, columns.audit)
    )
    return [VotesRow(**row._mapping) for row in connection.execute(query)]


@dataclass(frozen=True, slots=True)
class CallsRow:
    """The calls to one model that ended alike.

    Attributes:
        model: its name in the pool.
        under_way: whether they have not ended yet.
        failure: the code of what went wrong, ``None`` for an answer.
        calls: how many.
        cost_usd: what they cost, in $; lost ones as if they had cost their reservation.
    """

    model: str
    under_way: bool
    failure: str | None
    calls: int
    cost_usd: float


def calls(connection: Connection, project: str) -> list[CallsRow]:
    """A project's calls by model and by how they ended, in this order."""
    columns = _calls.c
    query = (
        select(
            columns.model,
            columns.state,
            columns.error_code,
            func.count().label("calls"),
            func.coalesce(func.sum(columns.cost), 0).label("cost"),
        )
        .where(columns.project == project)
        .group_by(columns.model, columns.state, columns.error_code)
        .order_by(columns.model, columns.state, columns.error_code)
    )
    return [
        CallsRow(
            model=row.model,
            under_way=row.state == "reserved",
            failure=LOST if row.state == "lost" else row.error_code,
            calls=row.calls,
            cost_usd=from_picodollars(int(row.cost)),  # PostgreSQL sums big integers to a Decimal
        )
        for row in connection.execute(query)
    ]


def seconds(connection: Connection, project: str, model: str, answered: int, quantile: float) -> float:
    """How long a model's answers took: the smallest time that ``quantile`` of them did not exceed.

    Args:
        connection: in the transaction that counted ``answered``.
        project: the project's key.
        model: the model's name in the pool.
        answered: its calls that brought an answer, at least one.
        quantile: in (0, 1].
    """
    columns = _calls.c
    mine = and_(columns.project == project, columns.model == model)
    answers = and_(columns.state == "settled", columns.error_code.is_(None))
    rank = math.ceil(quantile * answered)
    query = select(columns.seconds).where(mine, answers).order_by(columns.seconds)
    return float(connection.execute(query.offset(rank - 1).limit(1)).scalar_one())
