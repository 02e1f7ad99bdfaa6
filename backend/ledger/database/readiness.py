"""Readiness: whether the ledger can be written, tried with one small row."""

from __future__ import annotations

from sqlalchemy import Connection, select

from backend.ledger.database import tables
from backend.ledger.database.statements import insert_or_replace, now

_READ = select(tables.projects.c.key).limit(1)


def try_write(connection: Connection) -> None:
    """Write the row, and read a table; the transaction fails if the ledger is down or lacks its tables."""
    connection.execute(_READ)
    row = {"id": 1, "checked_at": now(connection)}
    connection.execute(insert_or_replace(connection.dialect, tables.readiness), row)
