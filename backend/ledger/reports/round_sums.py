"""Sums over a project's rounds: by question, by bin of the score, and from a score on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, case, func, select

from backend.ledger.database import tables
from backend.ledger.human_annotations import is_open
from backend.ledger.recounts import rows as recounts

_rounds = tables.rounds

BINS = 10
"""Number of equally wide bins into which [0, 1] is divided for scores."""


@dataclass(frozen=True, slots=True)
class RoundsRow:
    """The rounds of one question in one epoch, separately for audits and other rounds.

    Attributes:
        control: the name of the question's control tag.
        epoch: the question's epoch.
        audit: whether the predictions were held back for blind labelling.
        rounds: number of rounds.
        checked: number of rounds with a human label.
        confirmed: sum of their voted labels' agreement with the human label.
        cost_usd: cost of the rounds, in $.
        full_cost_usd: cost if every model had been asked, in $.
        last_at: unix seconds of the latest round.
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


def sum_rounds(connection: Connection, project: str) -> list[RoundsRow]:
    """Sum a project's rounds by question, epoch and audit, ordered by these."""
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
    """The human-labelled rounds whose scores fall into one bin.

    Attributes:
        audit: whether the predictions were held back for blind labelling.
        bin: 0 to :data:`BINS` - 1.
        rounds: number of rounds.
        score: sum of their scores.
        confirmed: sum of their voted labels' agreement with the human label.
    """

    audit: bool
    bin: int
    rounds: int
    score: float
    confirmed: float


def latest_plan(connection: Connection, project: str, control: str, epoch: str) -> Mapping[str, Any] | None:
    """The plan of a question's newest round in an epoch; ``None`` without a round."""
    columns = _rounds.c
    query = (
        select(columns.plan)
        .where(columns.project == project, columns.control == control, columns.epoch == epoch)
        .order_by(columns.id.desc())
        .limit(1)
    )
    plan: Mapping[str, Any] | None = connection.execute(query).scalar()
    return plan


def sum_scores(connection: Connection, project: str) -> list[BinRow]:
    """Sum a project's human-labelled rounds by audit and bin of the score; empty bins are absent."""
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


def count_labels(  # noqa: PLR0917 - the question, and which of its labels
    connection: Connection,
    project: str,
    control: str,
    epoch: str,
    score: float = 0.0,
    through: int | None = None,
) -> int:
    """Count a question's labels in an epoch, each with its score by the latest counting.

    Once votes were counted again, only the tasks that nobody has annotated count: the others kept the labels
    of an earlier counting, and people have seen to them.

    Args:
        connection: in a read transaction.
        project: the project's key.
        control: the name of the control tag.
        epoch: the epoch.
        score: the least score of the labels.
        through: the last round to count; ``None`` for all rounds.
    """
    columns = _rounds.c
    of_question = (columns.project == project, columns.control == control, columns.epoch == epoch)
    query = select(func.count()).where(*of_question)
    if recounts.is_recounted(connection, project):
        query = query.where(recounts.latest_score() >= score, is_open(project, columns.task))
    else:
        query = query.where(columns.score >= score)
    return connection.scalars(query if through is None else query.where(columns.id <= through)).one()
