"""Sums by model for one project: how right its votes were, what its calls cost and how long they took."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sqlalchemy import Connection, and_, case, func, select

from backend.ledger.database import tables
from backend.ledger.money.picodollars import from_picodollars
from camvo.scores.few_shot import ExampleTrial

_votes, _calls = tables.votes, tables.calls

LOST = "lost"
"""The failure of a call whose process died before the call ended."""


@dataclass(frozen=True, slots=True)
class VotesRow:
    """One model's votes, separately for audits (rounds with blind labelling) and other rounds.

    Attributes:
        model: the model's name in the pool.
        audit: whether the rounds' predictions were held back for blind labelling.
        asked: rounds in which the model was asked.
        voted: rounds in which it gave a valid vote.
        compared: votes compared with the voted label: another model voted too, and the votes did not decide
            which models were asked.
        agreed: sum of their agreement with the voted label.
        checked: votes compared with a human label, in rounds where the model was asked regardless of other
            votes.
        confirmed: sum of their agreement with the human label.
    """

    model: str
    audit: bool
    asked: int
    voted: int
    compared: int
    agreed: float
    checked: int
    confirmed: float


def sum_votes(connection: Connection, project: str) -> list[VotesRow]:
    """Sum a project's votes by model and audit, ordered by these."""
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


def sum_example_trials(connection: Connection, project: str) -> dict[str, ExampleTrial]:
    """Return model → how right its votes were with examples and where examples were left out at random.

    Only votes on human-labelled rounds count, and no blind ones: the outcome decides what later prompts show.
    """
    columns = _votes.c
    with_examples = columns.examples > 0
    query = (
        select(
            columns.model,
            func.sum(case((with_examples, columns.confirmed), else_=0.0)).label("right_with"),
            func.sum(case((with_examples, 1), else_=0)).label("votes_with"),
            func.sum(case((with_examples, 0.0), else_=columns.confirmed)).label("right_without"),
            func.sum(case((with_examples, 0), else_=1)).label("votes_without"),
        )
        .where(columns.project == project, ~columns.audit)
        .where(columns.examples >= 0, columns.confirmed.is_not(None))
        .group_by(columns.model)
    )
    return {
        row.model: ExampleTrial(
            float(row.right_with), int(row.votes_with), float(row.right_without), int(row.votes_without)
        )
        for row in connection.execute(query)
    }


@dataclass(frozen=True, slots=True)
class CallsRow:
    """The calls to one model with the same outcome.

    Attributes:
        model: the model's name in the pool.
        under_way: whether the calls are still running.
        failure: the error's code, or :data:`LOST`; ``None`` for answers and running calls.
        calls: number of calls.
        cost_usd: their cost, in $; a lost call counts with its full reservation.
    """

    model: str
    under_way: bool
    failure: str | None
    calls: int
    cost_usd: float


def sum_calls(connection: Connection, project: str) -> list[CallsRow]:
    """Sum a project's calls by model and outcome, ordered by these."""
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


def answer_seconds(connection: Connection, project: str, model: str, answered: int, quantile: float) -> float:
    """Return a quantile of the durations of a model's answered calls, in seconds.

    Args:
        connection: in the transaction that counted ``answered``.
        project: the project's key.
        model: the model's name in the pool.
        answered: number of its calls that returned an answer, at least one.
        quantile: in (0, 1]; the result is the smallest duration that this share does not exceed.
    """
    columns = _calls.c
    of_model = and_(columns.project == project, columns.model == model)
    is_answered = and_(columns.state == "settled", columns.error_code.is_(None))
    rank = math.ceil(quantile * answered)
    query = select(columns.seconds).where(of_model, is_answered).order_by(columns.seconds)
    return float(connection.execute(query.offset(rank - 1).limit(1)).scalar_one())
