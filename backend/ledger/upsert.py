"""``INSERT … ON CONFLICT``, which both databases know and SQLAlchemy spells once per dialect."""

from __future__ import annotations

from functools import cache

from sqlalchemy import Dialect, Insert, Table
from sqlalchemy.dialects import postgresql, sqlite


def insert(dialect: Dialect, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An insert into ``table`` that has ``on_conflict_do_nothing`` and ``on_conflict_do_update``."""
    return sqlite.insert(table) if dialect.name == "sqlite" else postgresql.insert(table)


@cache
def insert_new(dialect: Dialect, table: Table) -> Insert:
    """An insert of the rows it is executed with; one that is there already stays as it is.

    Building a statement takes longer than running it, so what every call needs is built once.
    """
    return insert(dialect, table).on_conflict_do_nothing()
