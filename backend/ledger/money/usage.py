"""What the calls to each model used, read from the money."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, and_, case, func, select

from backend.ledger.database import tables
from backend.ledger.money.picodollars import from_picodollars

_calls = tables.calls


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """The finished calls to one model.

    Attributes:
        calls: how many, with the failures.
        failures: how many of them brought no answer: failed, or lost with their process.
        counted_tokens: input tokens by our own count, summed over the calls that were answered.
        input_tokens: the same as the provider counted them.
        output_tokens: summed over the same calls.
        cost_usd: what these calls cost, in $.
        failed_usd: what the failures cost, in $; the lost ones as if they had cost their reservation.
    """

    calls: int
    failures: int
    counted_tokens: int
    input_tokens: int
    output_tokens: int
    cost_usd: float
    failed_usd: float


def usage_by_model(connection: Connection, project: str | None = None) -> dict[str, ModelUsage]:
    """The usage of every model that was ever asked, in all projects or in one."""
    answered = and_(_calls.c.state == "settled", _calls.c.error_code.is_(None))
    query = (
        select(
            _calls.c.model,
            func.count().label("calls"),
            func.count(case((~answered, 1))).label("failures"),
            func.sum(case((answered, _calls.c.counted_tokens), else_=0)).label("counted_tokens"),
            func.sum(case((answered, _calls.c.input_tokens), else_=0)).label("input_tokens"),
            func.sum(case((answered, _calls.c.output_tokens), else_=0)).label("output_tokens"),
            func.sum(case((answered, _calls.c.cost), else_=0)).label("cost"),
            func.sum(case((answered, 0), else_=_calls.c.cost)).label("failed"),
        )
        .where(_calls.c.state != "reserved")
        .group_by(_calls.c.model)
        .order_by(_calls.c.model)
    )
    if project is not None:
        query = query.where(_calls.c.project == project)
    return {row.model: _usage(row) for row in connection.execute(query)}


def calls_by_model(connection: Connection, project: str) -> dict[str, ModelUsage]:
    """The usage of every model that was asked for one project."""
    return usage_by_model(connection, project)


def _usage(row: Row[Any]) -> ModelUsage:
    return ModelUsage(
        calls=row.calls,
        failures=row.failures,
        counted_tokens=int(row.counted_tokens),  # PostgreSQL sums big integers to a Decimal
        input_tokens=int(row.input_tokens),
        output_tokens=int(row.output_tokens),
        cost_usd=from_picodollars(int(row.cost)),
        failed_usd=from_picodollars(int(row.failed)),
    )
