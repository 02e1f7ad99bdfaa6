"""Tokens that the answered calls to each model used."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from backend.ledger.database import tables

_calls = tables.calls


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """The answered calls to one model.

    Attributes:
        calls: number of answered calls.
        counted_tokens: their input tokens, by CaMVo's own count.
        input_tokens: their input tokens, as counted by the provider.
        output_tokens: their output tokens, as counted by the provider.
    """

    calls: int
    counted_tokens: int
    input_tokens: int
    output_tokens: int


def usage_by_model(connection: Connection) -> dict[str, ModelUsage]:
    """Return the usage of every model that ever answered, over all projects, by the model's name."""
    query = (
        select(
            _calls.c.model,
            func.count().label("calls"),
            func.sum(_calls.c.counted_tokens).label("counted_tokens"),
            func.sum(_calls.c.input_tokens).label("input_tokens"),
            func.sum(_calls.c.output_tokens).label("output_tokens"),
        )
        .where(_calls.c.state == "settled", _calls.c.error_code.is_(None))
        .group_by(_calls.c.model)
        .order_by(_calls.c.model)
    )
    return {
        row.model: ModelUsage(
            calls=row.calls,
            counted_tokens=int(row.counted_tokens),  # PostgreSQL sums big integers to a Decimal
            input_tokens=int(row.input_tokens),
            output_tokens=int(row.output_tokens),
        )
        for row in connection.execute(query)
    }
