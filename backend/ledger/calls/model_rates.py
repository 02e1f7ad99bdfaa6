"""The rates of models: one row per model, with the state of its controller for all processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, select

from backend.ledger.database import tables
from backend.ledger.database.upsert import insert_or_replace

_table = tables.model_rates
_STATE = select(_table.c.state).where(_table.c.model == bindparam("of"))


def read(connection: Connection, model: str) -> dict[str, Any] | None:
    """Return the stored state of a model's rates; ``None`` if there is none."""
    state: dict[str, Any] | None = connection.execute(_STATE, {"of": model}).scalar_one_or_none()
    return state


def store(connection: Connection, model: str, state: Mapping[str, Any], now: float) -> None:
    """Store the state of a model's rates.

    Args:
        connection: in a write transaction.
        model: the model's name in the pool.
        state: JSON.
        now: unix seconds.
    """
    row = {"model": model, "state": dict(state), "updated_at": now}
    connection.execute(insert_or_replace(connection.dialect, _table), row)
