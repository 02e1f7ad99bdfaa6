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


@cache
def insert_or_replace(dialect: Dialect, table: Table) -> Insert:
    """An insert of the whole rows it is executed with, in place of those with the same primary key."""
    statement = insert(dialect, table)
    given = {
        column.name: statement.excluded[column.name] for column in table.columns if not column.primary_key
    }
    return statement.on_conflict_do_update(index_elements=table.primary_key.columns.keys(), set_=given)
