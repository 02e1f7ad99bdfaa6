"""Readiness: whether the ledger can be written, tried with one small row."""

from __future__ import annotations

from sqlalchemy import Connection

from backend.ledger.database import tables
from backend.ledger.database.clock import now
from backend.ledger.database.upsert import insert_or_replace


def try_write(connection: Connection) -> None:
    """Write the row; the transaction fails if the ledger cannot be written or lacks its tables."""
    row = {"id": 1, "checked_at": now(connection)}
    connection.execute(insert_or_replace(connection.dialect, tables.readiness), row)
