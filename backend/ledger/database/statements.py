"""Statements for both databases: upserts, lists as one parameter, the clock, and a trial write.

A list of parameters, one for each value, takes longer to build than the database takes to use it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby, islice
from typing import Any, TypeVar

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    ColumnElement,
    Connection,
    Dialect,
    Select,
    Table,
    Text,
    TypeDecorator,
    bindparam,
    delete,
    literal,
    select,
    text,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

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


def portions(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    """Divide items among statements or transactions that each take ``size`` of them."""
    remaining = iter(items)
    while portion := list(islice(remaining, size)):
        yield portion


upsert = postgresql.insert
"""An insert with ``on_conflict_do_nothing`` and ``on_conflict_do_update``; SQLite has the same clauses."""


@cache
def insert_new(table: Table) -> postgresql.Insert:
    """Return an insert that leaves existing rows as they are.

    Building a statement takes longer than running it, so statements are cached.
    """
    return upsert(table).on_conflict_do_nothing()


@cache
def insert_or_replace(table: Table) -> postgresql.Insert:
    """Return an insert of whole rows that replaces rows with the same primary key."""
    statement = upsert(table)
    new_values = {
        column.name: statement.excluded[column.name] for column in table.columns if not column.primary_key
    }
    return statement.on_conflict_do_update(index_elements=table.primary_key.columns.keys(), set_=new_values)


def try_write(connection: Connection) -> None:
    """Write a small row and read a table; the transaction fails if the ledger is down or lacks its tables."""
    connection.execute(select(tables.projects.c.key).limit(1))
    row = {"id": 1, "checked_at": now(connection)}
    connection.execute(insert_or_replace(tables.readiness), row)


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


class _List(TypeDecorator[Sequence[Any]]):
    """Numbers or texts as one parameter: JSON for SQLite, an array for PostgreSQL."""

    impl = Text
    cache_ok = True

    def __init__(self, of: type[Any]) -> None:
        super().__init__()
        self.of = of

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        array = ARRAY(BigInteger if self.of is int else Text)
        kind: TypeEngine[Any] = Text() if dialect.name == "sqlite" else array
        return dialect.type_descriptor(kind)

    def process_bind_param(self, value: Sequence[Any] | None, dialect: Dialect) -> object:
        values = list(value or ())
        return json.dumps(values) if dialect.name == "sqlite" else values


class _Among(FunctionElement[bool]):
    """Whether a column holds one of the values of a list."""

    inherit_cache = True
    type = Boolean()


@compiles(_Among, "sqlite")
def _among_in_sqlite(element: _Among, compiler: SQLCompiler, **options: Any) -> str:
    column, values = (compiler.process(each, **options) for each in element.clauses)
    return f"({column} IN (SELECT value FROM json_each({values})))"  # noqa: S608 - two compiled parts


@compiles(_Among, "postgresql")
def _among_in_postgresql(element: _Among, compiler: SQLCompiler, **options: Any) -> str:
    column, values = (compiler.process(each, **options) for each in element.clauses)
    return f"({column} = ANY ({values}))"


def among(column: ColumnElement[_T], values: Sequence[_T] | str) -> ColumnElement[bool]:
    """Return the condition that a column holds one of some values, or of those of a parameter by its name.

    A statement with a parameter can be built once, which takes longer than to run it.
    """
    kind = _List(column.type.python_type)
    return _Among(column, bindparam(values, type_=kind) if isinstance(values, str) else literal(values, kind))


def delete_tasks(connection: Connection, table: Any, project: str, tasks: Sequence[int]) -> int:
    """Delete a project's rows about some tasks, and return how many there were."""
    chosen = among(table.c.task, tasks)
    return connection.execute(delete(table).where(table.c.project == project, chosen)).rowcount
