"""Tokens and money used by the finished calls to each model."""

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
        calls: number of calls, including failures.
        failures: number of calls without an answer: they failed, or their process died.
        counted_tokens: input tokens of the answered calls, by CaMVo's own count.
        input_tokens: input tokens of the answered calls, as counted by the provider.
        output_tokens: output tokens of the answered calls, as counted by the provider.
        cost_usd: cost of the answered calls, in $.
        failed_usd: cost of the failures, in $; a lost call counts with its full reservation.
    """

    calls: int
    failures: int
    counted_tokens: int
    input_tokens: int
    output_tokens: int
    cost_usd: float
    failed_usd: float


def usage_by_model(connection: Connection) -> dict[str, ModelUsage]:
    """Return the usage of every model that was ever called, over all projects, by the model's name."""
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
    return {row.model: _usage(row) for row in connection.execute(query)}


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
