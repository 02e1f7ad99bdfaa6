"""What a report is made of, summed by the database: no query here returns a row for every round.

All of it reads from indexes that hold what is summed, so that a hundred thousand rounds take a moment only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, and_, case, func, select

from backend.ledger import tables
from backend.ledger.picodollars import from_picodollars

_rounds, _votes, _calls, _annotations = tables.rounds, tables.votes, tables.calls, tables.human_annotations

BINS = 10
"""Equally wide parts of [0, 1] that scores are sorted into."""

LOST = "lost"
"""The reason of a call whose process died: nobody knows what became of it."""


@dataclass(frozen=True, slots=True)
class RoundsRow:
    """The rounds of one question in one epoch, those kept blind for an audit apart from the others.

    Attributes:
        control: the name of the question's control tag.
        epoch: which of its states they taught.
        audit: whether their predictions were held back.
        rounds: how many.
        checked: how many have a human label.
        confirmed: how right those were, summed.
        cost_usd: what they cost, in $.
        full_cost_usd: what asking every model would have cost, in $.
        last_at: unix seconds of the latest.
    """

    control: str
    epoch: str
    audit: bool
    rounds: int
    checked: int
    confirmed: float
    cost_usd: float
    full_cost_usd: float
    last_at: float


def rounds(connection: Connection, project: str) -> list[RoundsRow]:
    """A project's rounds by question, epoch and audit, in this order."""
    columns = _rounds.c
    query = (
        select(
            columns.control,
            columns.epoch,
            columns.audit,
            func.count().label("rounds"),
            func.count(columns.confirmed).label("checked"),
            func.coalesce(func.sum(columns.confirmed), 0.0).label("confirmed"),
            func.sum(columns.cost_usd).label("cost_usd"),
            func.sum(columns.full_cost_usd).label("full_cost_usd"),
            func.max(columns.created_at).label("last_at"),
        )
        .where(columns.project == project)
        .group_by(columns.control, columns.epoch, columns.audit)
        .order_by(columns.control, columns.epoch, columns.audit)
    )
    return [RoundsRow(**row._mapping) for row in connection.execute(query)]


@dataclass(frozen=True, slots=True)
class BinRow:
    """The rounds with a human label whose scores fall into one bin.

    Attributes:
        audit: whether their predictions were held back.
        bin: 0 to ``BINS`` - 1.
        rounds: how many.
        score: their scores, summed.
        confirmed: how right they were, summed.
    """

    audit: bool
    bin: int
    rounds: int
    score: float
    confirmed: float


def scores(connection: Connection, project: str) -> list[BinRow]:
    """The checked rounds of a project by audit and by bin of the score; a bin without any is absent."""
    columns = _rounds.c
    bounds = [(columns.score < (number + 1) / BINS, number) for number in range(BINS - 1)]
    number = case(*bounds, else_=BINS - 1).label("bin")
    query = (
        select(
            columns.audit,
            number,
            func.count().label("rounds"),
            func.sum(columns.score).label("score"),
            func.sum(columns.confirmed).label("confirmed"),
        )
        .where(columns.project == project, columns.confirmed.is_not(None))
        .group_by(columns.audit, number)
        .order_by(columns.audit, number)
    )
    return [BinRow(**row._mapping) for row in connection.execute(query)]


@dataclass(frozen=True, slots=True)
class AuditRow:
    """The rounds of one question in one epoch whose scores lie between two neighbours of some thresholds.

    Attributes:
        control: the name of the question's control tag.
        epoch: which of its states they taught.
        cell: how many of the thresholds they reach.
        rounds: how many, blind or not.
        audits: those that were kept blind and have a human label.
        confirmed: how right these were, summed.
    """

    control: str
    epoch: str
    cell: int
    rounds: int
    audits: int
    confirmed: float


def audits(connection: Connection, project: str, thresholds: Sequence[float]) -> list[AuditRow]:
    """A project's rounds and its audits by question, epoch and score; a cell without rounds is absent.

    Args:
        connection: in a read transaction.
        project: the project's key.
        thresholds: ascending.
    """
    columns = _rounds.c
    bounds = [(columns.score < threshold, cell) for cell, threshold in enumerate(thresholds)]
    cell = case(*bounds, else_=len(thresholds)).label("cell")
    blind = case((columns.audit, columns.confirmed))
    query = (
        select(
            columns.control,
            columns.epoch,
            cell,
            func.count().label("rounds"),
            func.count(blind).label("audits"),
            func.coalesce(func.sum(blind), 0.0).label("confirmed"),
        )
        .where(columns.project == project)
        .group_by(columns.control, columns.epoch, cell)
        .order_by(columns.control, columns.epoch, cell)
    )
    return [AuditRow(**row._mapping) for row in connection.execute(query)]


@dataclass(frozen=True, slots=True)
class VotesRow:
    """What came of asking one model, apart for rounds that were kept blind.

    Attributes:
        model: its name in the pool.
        audit: whether the rounds' predictions were held back.
        asked: rounds in which it was asked.
        voted: those in which it gave a valid vote.
        compared: those in which another model voted too.
        agreed: how well it agreed with the label voted, summed over these.
        checked: votes on which there is a human label.
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


@dataclass(frozen=True, slots=True)
class HumansRow:
    """What people said about a project.

    Attributes:
        annotations: those that were not deleted.
        teaching: those among them that may become a reward.
        tasks: tasks that have such a one.
        ground_truths: those marked as ground truth.
        last_at: unix seconds when the latest arrived, ``None`` before the first.
    """

    annotations: int
    teaching: int
    tasks: int
    ground_truths: int
    last_at: float | None


def humans(connection: Connection, project: str) -> HumansRow:
    """The human annotations of a project."""
    columns = _annotations.c
    query = select(
        func.count().label("annotations"),
        func.count(case((columns.teaches, 1))).label("teaching"),
        func.count(case((columns.teaches, columns.task)).distinct()).label("tasks"),
        func.count(case((columns.ground_truth, 1))).label("ground_truths"),
        func.max(columns.received_at).label("last_at"),
    ).where(columns.project == project, ~columns.deleted)
    return HumansRow(**connection.execute(query).one()._mapping)
