"""The ledger's one object: a database to migrate, to read and to write.

SQLite and PostgreSQL give the same guarantees: a reader sees one snapshot and never waits; one write
transaction runs at a time, over all processes, and what it commits is on the disk. With a single writer at a
time there are no deadlocks, no lost updates and no gaps in a sequence, and a function that reads before it
writes needs no further lock. The group commit (``writer.py``) keeps that quick.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, select
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from backend.errors import LedgerError
from backend.ledger.database import engines, tables
from backend.ledger.database.failures import ledger_error, place

PATIENCE = 30.0
"""Seconds that a writer waits for its turn before it gives up."""

_PAUSE = 0.02


class Ledger:
    """One database, opened at the first use; migrate it before.

    Args:
        url: ``sqlite:///file`` or ``postgresql://user:password@host/database``.
        patience: seconds that a writer waits for its turn.

    Raises:
        LedgerError: the URL cannot be read, or its database is none that CaMVo knows.
    """

    def __init__(self, url: str, *, patience: float = PATIENCE) -> None:
        self._url = engines.normalise(url)
        self._patience = patience
        self._engine = engines.create(self._url, patience)
        self._reader, self._writer = engines.reader(self._engine), engines.writer(self._engine)

    @property
    def place(self) -> str:
        """The database as a text for people, without its password."""
        return place(self._url)

    def migrate(self) -> None:
        """Bring the tables up to date; safe when several processes do it at once.

        Raises:
            LedgerError: the database cannot be opened, or was written by a newer version of CaMVo.
        """
        from alembic import command  # noqa: PLC0415 - not needed by a worker, and not quick
        from alembic.config import Config  # noqa: PLC0415
        from alembic.util import CommandError  # noqa: PLC0415

        if self._engine.dialect.name == "sqlite":
            self._switch_to_wal()
        config = Config()
        config.set_main_option("script_location", "backend.ledger:migrations")
        try:
            with self.write() as connection:
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
        except CommandError as error:
            raise LedgerError(
                f"its tables are of a version that this CaMVo does not know: {error}",
                where=self.place,
                fix="install the version of CaMVo that wrote the ledger last, or a newer one",
            ) from error

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one snapshot of the ledger, waits for nobody and cannot write.

        Raises:
            LedgerError: the database failed.
        """
        with self._failures(), self._reader.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """The one write transaction of the moment: committed, and on the disk, when the block is left.

        An exception rolls it back and passes on. Do nothing slow inside: every other writer is waiting.

        Raises:
            LedgerError: the database failed, or the turn did not come in time. Nothing is written, unless
                the connection broke during the very commit.
        """
        # Not "with connection.begin()": that passes over a transaction that broke down inside, and gives a
        # SQLite connection whose commit failed back to the pool with its transaction still open.
        with self._failures(), self._writer.connect() as connection:
            transaction = connection.begin()
            try:
                yield connection
                transaction.commit()
            except BaseException:
                transaction.rollback()
                raise

    def answers(self) -> bool:
        """Whether the ledger can be read and has its tables."""
        try:
            with self.read() as connection:
                connection.execute(select(tables.projects.c.key).limit(1))
        except LedgerError:
            return False
        return True

    def close(self) -> None:
        """Close the connections; a later use opens new ones."""
        self._engine.dispose()

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise ledger_error(error, self._url) from error

    def _switch_to_wal(self) -> None:
        """The file remembers the mode. SQLite does not wait its turn for this one change, so we do."""
        until = time.monotonic() + self._patience
        while True:
            try:
                with self._failures(), self._engine.connect() as connection:
                    mode = connection.exec_driver_sql("PRAGMA journal_mode=WAL").scalar_one()
                break
            except LedgerError as error:
                locked = isinstance(error.__cause__, OperationalError) and "locked" in error.message
                if not locked or time.monotonic() >= until:
                    raise
                time.sleep(_PAUSE)
        if mode != "wal":
            raise LedgerError(
                f"SQLite cannot use its write-ahead log here, only the mode {mode!r}",
                where=self.place,
                fix="put the file on a local disk; on a network drive use PostgreSQL",
            )
