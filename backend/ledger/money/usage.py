"""Tokens that the answered calls to each model used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, case, func, select

from backend.ledger.database import tables

_calls = tables.calls


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """The answered calls to one model.

    Attributes:
        calls: number of answered calls.
        counted_tokens: their input tokens, by CaMVo's own count.
        input_tokens: their input tokens, as believed of what the provider reported.
        output_tokens: their output tokens, as believed of what the provider reported.
        tasks: the number of tasks that they were about.
        cached_tokens: the part of their input tokens that the provider read from its cache.
    """

    calls: int
    counted_tokens: int
    input_tokens: int
    output_tokens: int
    tasks: int
    cached_tokens: int


def usage_by_model(
    connection: Connection, most_output: Mapping[str, int], *, max_factor: int
) -> dict[str, ModelUsage]:
    """Return the usage of those models that ever answered, over all projects, by the model's name.

    Ledgers of earlier versions hold absurd numbers that a provider once reported, so each call counts with
    at most what it could take.

    Args:
        connection: a read transaction.
        most_output: the models, and the most output tokens of one of their answers about a task; not empty.
        max_factor: the most input tokens per counted token.
    """
    most_input = max_factor * _calls.c.counted_tokens
    longest = case(most_output, value=_calls.c.model) * _calls.c.tasks
    query = (
        select(
            _calls.c.model,
            func.count().label("calls"),
            func.sum(_calls.c.tasks).label("tasks"),
            func.coalesce(func.sum(_calls.c.cached_tokens), 0).label("cached_tokens"),
            func.sum(_calls.c.counted_tokens).label("counted_tokens"),
            func.sum(_smaller(_calls.c.input_tokens, most_input)).label("input_tokens"),
            func.sum(_smaller(_calls.c.output_tokens, longest)).label("output_tokens"),
        )
        .where(
            _calls.c.state == "settled", _calls.c.error_code.is_(None), _calls.c.model.in_(list(most_output))
        )
        .group_by(_calls.c.model)
        .order_by(_calls.c.model)
    )
    return {
        row.model: ModelUsage(
            calls=row.calls,
            tasks=int(row.tasks),
            cached_tokens=int(row.cached_tokens),
            counted_tokens=int(row.counted_tokens),  # PostgreSQL sums big integers to a Decimal
            input_tokens=int(row.input_tokens),
            output_tokens=int(row.output_tokens),
        )
        for row in connection.execute(query)
    }


def _smaller(one: ColumnElement[int], other: ColumnElement[int]) -> ColumnElement[int]:
    return case((one < other, one), else_=other)
