"""Statements for both databases: upserts, sets of numbers as one parameter, the clock, and a trial write.

A list of parameters, one for each number, takes longer to build than the database takes to use it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from functools import cache
from itertools import groupby
from typing import Any, TypeVar

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Connection,
    Dialect,
    Insert,
    Select,
    Table,
    Text,
    any_,
    bindparam,
    delete,
    func,
    literal,
    select,
    text,
    true,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import Insert as DmlInsert

from backend.ledger.database import tables

_OPTION = "camvo_clock"
_T = TypeVar("_T")
_NOW = text("SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision)")


def now(connection: Connection) -> float:
    """Return the database's time in unix seconds.

    It is PostgreSQL's own. Processes that share a SQLite file run on one host, so there it is the clock that
    the ``Ledger`` was given.
    """
    if connection.dialect.name == "sqlite":
        clock: Callable[[], float] = connection.get_execution_options()[_OPTION]
        return clock()
    return float(connection.execute(_NOW).scalar_one())


def option(clock: Callable[[], float]) -> dict[str, Callable[[], float]]:
    """Return the execution option that holds the clock for :func:`now`."""
    return {_OPTION: clock}


def portions(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    """Divide items among statements or transactions that each take ``size`` of them."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


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


def try_write(connection: Connection) -> None:
    """Write a small row and read a table; the transaction fails if the ledger is down or lacks its tables."""
    connection.execute(select(tables.projects.c.key).limit(1))
    row = {"id": 1, "checked_at": now(connection)}
    connection.execute(insert_or_replace(connection.dialect, tables.readiness), row)


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
    """Return those of the tasks, which are projects and numbers, whose number a query finds."""
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


def among_parameter(dialect: str, column: ColumnElement[int]) -> ColumnElement[bool]:
    """Return the condition that a column holds one of the numbers that :func:`numbers_for` makes a parameter.

    A statement with it can be built once, which takes longer than to run it.
    """
    if dialect == "sqlite":
        numbers = func.json_each(bindparam("numbers", type_=Text)).table_valued("value")
        return column.in_(select(numbers.c.value))
    return column == any_(bindparam("numbers", type_=ARRAY(BigInteger)))


def numbers_for(dialect: str, numbers: Sequence[int]) -> dict[str, Any]:
    """Return the parameter of :func:`among_parameter`."""
    return {"numbers": json.dumps(list(numbers)) if dialect == "sqlite" else list(numbers)}


def rows_among(
    connection: Connection, table: Table, column: str, numbers: Sequence[int], kind: type[_T], *order: str
) -> list[_T]:
    """Return the rows whose column holds one of the numbers; their dataclass names the columns to read."""
    dialect = connection.dialect.name
    query = _rows_among(dialect, table, column, kind, *order)  # type: ignore[arg-type]  # a class is hashable
    return [kind(**row._mapping) for row in connection.execute(query, numbers_for(dialect, numbers))]


@cache
def _rows_among(dialect: str, table: Table, column: str, kind: type[Any], *order: str) -> Select[Any]:
    """The query of :func:`rows_among`, built once."""
    columns = table.c
    chosen = among_parameter(dialect, columns[column])
    names = [each.name for each in fields(kind)]
    return select(*columns[*names]).where(chosen).order_by(*(columns[name] for name in order))


def delete_tasks(connection: Connection, table: Any, project: str, tasks: Sequence[int]) -> int:
    """Delete a project's rows about some tasks, and return how many there were."""
    chosen = among(connection.dialect, table.c.task, tasks)
    return connection.execute(delete(table).where(table.c.project == project, chosen)).rowcount


def insert_each(
    dialect: Dialect, table: Any, column: str, numbers: Sequence[int], **others: object
) -> DmlInsert:
    """Return an insert of one row for each number; rows that exist stay as they are."""
    values = [literal(value, table.c[name].type) for name, value in others.items()]
    rows = select(*values, _listed(dialect, numbers)).where(true())  # SQLite could not parse it without WHERE
    return insert(dialect, table).from_select([*others, column], rows).on_conflict_do_nothing()


def _listed(dialect: Dialect, numbers: Sequence[int]) -> ColumnElement[int]:
    if dialect.name == "sqlite":
        return func.json_each(literal(json.dumps(list(numbers)))).table_valued("value").c.value
    return func.unnest(_array(numbers)).column_valued("number")


def _array(numbers: Sequence[int]) -> ColumnElement[Any]:
    return literal(list(numbers), ARRAY(BigInteger))
