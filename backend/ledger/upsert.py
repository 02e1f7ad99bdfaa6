"""``INSERT … ON CONFLICT``, which both databases know and SQLAlchemy spells once per dialect."""

from __future__ import annotations

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite


def insert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An insert into ``table`` that has ``on_conflict_do_nothing`` and ``on_conflict_do_update``."""
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)
