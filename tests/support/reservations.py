"""Calls under way, for which money is reserved."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from backend.ledger import money


def reserve(connection: Connection, project: str = "1.1", task: int = 1, **changes: Any) -> int:
    """Reserve money for a call, $0.50 if nothing else is said, and return the call's id."""
    values: dict[str, Any] = {
        "model": "red",
        "key": "key",
        "usd": 0.5,
        "project_usd": None,
        "day_usd": None,
        "counted_tokens": 100,
        "seconds": 600.0,
    }
    wanted = money.Reservation(project=project, task=task, **(values | changes))
    return money.reserve_each(connection, [wanted])[wanted.key]
