"""A project's rounds, summed: by question, by bin of the score, and what its audits say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, case, func, select

from backend.ledger.database import tables

_rounds = tables.rounds

BINS = 10
"""Equally wide parts of [0, 1] that scores are sorted into."""


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
