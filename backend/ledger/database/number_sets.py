"""Sets of numbers as one parameter of a statement.

A list of parameters, one for each number, takes longer to write down than the database takes to use it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Connection,
    Dialect,
    Select,
    any_,
    func,
    literal,
    select,
    true,
)
from sqlalchemy.sql.dml import Insert

from backend.ledger.database.upsert import insert


def by_project(tasks: Iterable[tuple[str, int]]) -> list[tuple[str, list[int]]]:
    """Return each project of tasks, which are projects and numbers, with its numbers, all in order."""
    unique = sorted(set(tasks))
    return [
        (project, [number for _, number in members])
        for project, members in groupby(unique, key=lambda task: task[0])
    ]


def found_among(
    connection: Connection, query: Select[int], tasks: Iterable[tuple[str, int]]
) -> set[tuple[str, int]]:
    """Return those of the tasks, which are projects and numbers, whose number a query finds.

    Args:
        connection: any.
        query: finds numbers by the parameters ``of``, a project, and ``numbers``.
        tasks: at most some hundred.
    """
    return {
        (project, number)
        for project, numbers in by_project(tasks)
        for number in connection.scalars(query, {"of": project, "numbers": numbers})
    }


def among(dialect: Dialect, column: ColumnElement[int], numbers: Sequence[int]) -> ColumnElement[bool]:
    """Return the condition that a column holds one of the numbers."""
    if dialect.name == "sqlite":
        return column.in_(select(_listed(dialect, numbers)))
    return column == any_(_array(numbers))


def insert_each(
    dialect: Dialect, table: Any, column: str, numbers: Sequence[int], **others: object
) -> Insert:
    """Return an insert of one row for each number; rows that exist stay as they are.

    Args:
        dialect: the database's.
        table: the table.
        column: the column of the numbers.
        numbers: the numbers.
        others: the values of other columns, the same in each row.
    """
    values = [literal(value, table.c[name].type) for name, value in others.items()]
    rows = select(*values, _listed(dialect, numbers)).where(true())  # SQLite could not parse it without WHERE
    return insert(dialect, table).from_select([*others, column], rows).on_conflict_do_nothing()


def _listed(dialect: Dialect, numbers: Sequence[int]) -> ColumnElement[int]:
    if dialect.name == "sqlite":
        return func.json_each(literal(json.dumps(list(numbers)))).table_valued("value").c.value
    return func.unnest(_array(numbers)).column_valued("number")


def _array(numbers: Sequence[int]) -> ColumnElement[Any]:
    return literal(list(numbers), ARRAY(BigInteger))
