"""Copying a ledger into an empty database, from SQLite to PostgreSQL or the other way."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlalchemy import Connection, Table, func, insert, select, text

from backend.errors import LedgerError
from backend.ledger import Ledger
from backend.ledger.database import tables

_PORTION = 1000
_NUMBERED = tuple(table for table in tables.metadata.sorted_tables if table.autoincrement_column is not None)
"""The tables whose ids the database gives out."""

Advance = Callable[[int], object]


def row_counts(connection: Connection) -> dict[str, int]:
    """Return table → its number of rows."""
    return {
        table.name: connection.scalars(select(func.count()).select_from(table)).one()
        for table in tables.metadata.sorted_tables
    }


def copy(source: Ledger, target: Ledger, advance: Advance) -> Mapping[str, int]:
    """Copy every row of a ledger into an empty one, in one transaction on each side.

    Processes may go on with the source meanwhile; what they write after the beginning is not copied. So stop
    them first.

    Args:
        source: a migrated ledger.
        target: a migrated ledger without rows.
        advance: called with how many rows were copied.

    Returns:
        Table → how many rows were copied.

    Raises:
        LedgerError: the target is not empty, a database failed, or the copy has other rows than the source;
            then nothing is in the target.
    """
    with source.read() as reader, target.write() as writer:
        if filled := [name for name, count in row_counts(writer).items() if count]:
            raise LedgerError(
                f"the ledger is not empty: it has rows in {', '.join(filled)}",
                where=target.place,
                fix="copy into a new, empty database",
            )
        for table in tables.metadata.sorted_tables:
            _copy_rows(reader, writer, table, advance)
        _continue_ids(writer)
        before, after = row_counts(reader), row_counts(writer)
        if before != after:
            raise LedgerError(
                "the copy has other rows than its source", where=target.place, fix="repeat the command"
            )
    return after


def _copy_rows(reader: Connection, writer: Connection, table: Table, advance: Advance) -> None:
    rows = reader.execution_options(yield_per=_PORTION).execute(select(table))
    for portion in rows.mappings().partitions(_PORTION):
        writer.execute(insert(table), [dict(row) for row in portion])
        advance(len(portion))


def _continue_ids(writer: Connection) -> None:
    """Let the ids of new rows begin after the last one; SQLite does that by itself."""
    if writer.dialect.name == "sqlite":
        return
    for table in _NUMBERED:
        last = writer.scalars(select(func.max(table.c.id))).one()
        if last is not None:
            statement = text("SELECT setval(pg_get_serial_sequence(:table, 'id'), :last)")
            writer.execute(statement, {"table": table.name, "last": last})
