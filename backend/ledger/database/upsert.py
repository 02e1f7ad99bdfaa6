"""``INSERT … ON CONFLICT`` statements: supported by both databases, but spelt per dialect in SQLAlchemy."""

from __future__ import annotations

from functools import cache

from sqlalchemy import Dialect, Insert, Table
from sqlalchemy.dialects import postgresql, sqlite


def insert(dialect: Dialect, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return an insert into ``table`` with ``on_conflict_do_nothing`` and ``on_conflict_do_update``."""
    return sqlite.insert(table) if dialect.name == "sqlite" else postgresql.insert(table)


@cache
def insert_new(dialect: Dialect, table: Table) -> Insert:
    """Return an insert that leaves existing rows as they are.

    Building a statement takes longer than running it, so statements are cached.
    """
    return insert(dialect, table).on_conflict_do_nothing()


@cache
def insert_or_replace(dialect: Dialect, table: Table) -> Insert:
    """Return an insert of whole rows that replaces rows with the same primary key."""
    statement = insert(dialect, table)
    new_values = {
        column.name: statement.excluded[column.name] for column in table.columns if not column.primary_key
    }
    return statement.on_conflict_do_update(index_elements=table.primary_key.columns.keys(), set_=new_values)
