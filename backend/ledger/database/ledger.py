"""The ledger's database: migrating it, reading it and writing it.

SQLite and PostgreSQL give the same guarantees:

- A read transaction sees one snapshot and never waits.
- Only one write transaction runs at a time, over all processes. A committed write is on the disk.

With one writer at a time there are no deadlocks, lost updates or gaps in a sequence, and a function may read
before it writes without a further lock. The group commit (``writer.py``) makes that fast.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from backend.errors import LedgerError
from backend.ledger.database import engines
from backend.ledger.database.failures import ledger_error, place
from backend.ledger.database.sqlite_file import SqliteFile

PATIENCE = 30.0
"""Seconds that a writer waits for its turn before it fails."""

_PAUSE = 0.02
_log = structlog.get_logger(__name__)

_DEVELOPMENT_REVISIONS = {"0001", "0002", "0003"}
"""Revisions whose migrations no longer exist: they were folded into 0004 before the first release."""

_LAST_TO_MIGRATE = "d9d5b7b"
"""The last commit that can migrate a ledger from these revisions."""


class Ledger:
    """One database. It is opened at the first use and must be migrated before any other use.

    Args:
        url: ``sqlite:///file`` or ``postgresql://user:password@host/database``.
        patience: seconds that a writer waits for its turn.
        clock: unix seconds; the ledger's clock on SQLite. PostgreSQL has its own (:mod:`clock`).

    Raises:
        LedgerError: the URL cannot be parsed, or CaMVo does not support its database.
    """

    def __init__(
        self, url: str, *, patience: float = PATIENCE, clock: Callable[[], float] = time.time
    ) -> None:
        self._url = engines.normalise(url)
        self._patience = patience
        self._works: dict[str, bool] = {}
        self._engine = engines.create(self._url, patience, clock)
        self._reader, self._writer = engines.reader(self._engine), engines.writer(self._engine)

    @property
    def place(self) -> str:
        """The database's address for display, without password."""
        return place(self._url)

    def exists(self) -> bool:
        """Whether there is anything to read. A missing SQLite file is not created, as opening it would."""
        return self._engine.dialect.name != "sqlite" or SqliteFile(self._url).exists()

    def migrate(self) -> None:
        """Create or update the tables. Several processes may do it at once.

        Raises:
            LedgerError: the database cannot be opened, or its tables are of a newer version of CaMVo or of
                a development version before revision 0004.
        """
        from alembic import command  # noqa: PLC0415 - slow to import, and workers do not need it
        from alembic.config import Config  # noqa: PLC0415
        from alembic.migration import MigrationContext  # noqa: PLC0415
        from alembic.util import CommandError  # noqa: PLC0415

        if self._engine.dialect.name == "sqlite":
            SqliteFile(self._url).create()
            self._switch_to_wal()
        config = Config()
        config.set_main_option("script_location", "backend.ledger:migrations")
        try:
            with self._transaction(engines.unbounded(self._engine)) as connection:
                self._refuse_development_version(
                    MigrationContext.configure(connection).get_current_revision()
                )
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
        except CommandError as error:
            raise LedgerError(
                f"the ledger's tables are of a version that this CaMVo does not know: {error}",
                where=self.place,
                fix="install the version of CaMVo that wrote the ledger, or a newer one",
            ) from error

    def check_revision(self) -> None:
        """Check that the tables are those of this version of CaMVo; nothing is changed.

        Raises:
            LedgerError: they are not, or the database failed.
        """
        from alembic.migration import MigrationContext  # noqa: PLC0415 - slow to import
        from alembic.script import ScriptDirectory  # noqa: PLC0415

        head = ScriptDirectory(str(Path(__file__).parent.parent / "migrations")).get_current_head()
        with self.read() as connection:
            revision = MigrationContext.configure(connection).get_current_revision()
        if revision != head:
            raise LedgerError(
                f"the ledger's tables are of revision {revision}, and this CaMVo needs {head}",
                where=self.place,
                fix="run `camvo check` to migrate it, or use the version of CaMVo that wrote it",
            )

    def compact(self) -> None:
        """Give the room of deleted rows in a SQLite file back. PostgreSQL reuses it by itself.

        The file is rewritten, so writers wait and the disk must have room for a second one.

        Raises:
            LedgerError: the database failed; it is as it was.
        """
        if self._engine.dialect.name == "sqlite":
            self.close()  # connections that have read are read-only
            with self._failures("compact"), self._engine.connect() as connection:
                connection.exec_driver_sql("VACUUM")

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a read-only transaction, which sees one snapshot of the ledger and never waits.

        Raises:
            LedgerError: the database failed.
        """
        with self._failures("read"), self._reader.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open the only write transaction. It is committed to the disk when the block ends.

        An exception rolls it back and is re-raised. Keep the block short, because all other writers wait.

        Raises:
            LedgerError: the database failed, or the writer's turn did not come in time. Nothing is written,
                unless the connection broke during the commit itself.
        """
        with self._transaction(self._writer) as connection:
            yield connection

    @contextmanager
    def _transaction(self, engine: Engine) -> Iterator[Connection]:
        # "with connection.begin()" would ignore a transaction that broke inside the block, and would return a
        # SQLite connection whose commit failed to the pool with its transaction still open.
        with self._failures("write"), engine.connect() as connection:
            transaction = connection.begin()
            try:
                yield connection
                transaction.commit()
            except BaseException:
                transaction.rollback()
                raise

    def close(self) -> None:
        """Close all connections; a later use opens new ones."""
        self._engine.dispose()

    @contextmanager
    def _failures(self, work: str) -> Iterator[None]:
        """Convert failures, and log when the database goes down for one kind of work and when it is back.

        What has never worked is a mistake of the start, which its caller reports.
        """
        try:
            yield
        except SQLAlchemyError as error:
            failure = ledger_error(error, self._url)
            if failure.temporary and self._works.get(work, False):
                self._works[work] = False
                _log.error("ledger_down", work=work, code=failure.code, reason=str(failure))
            raise failure from error
        if not self._works.setdefault(work, True):
            self._works[work] = True
            _log.warning("ledger_back", work=work, where=self.place)

    def _refuse_development_version(self, revision: str | None) -> None:
        if revision in _DEVELOPMENT_REVISIONS:
            raise LedgerError(
                f"this CaMVo cannot migrate the ledger from revision {revision}, a development version",
                where=self.place,
                fix=f"run `camvo check` with commit {_LAST_TO_MIGRATE} of CaMVo first, to migrate it",
            )

    def _switch_to_wal(self) -> None:
        """Switch the file to write-ahead logging, permanently.

        SQLite's own timeout does not apply to this change, so the method retries while others hold the file.
        """
        until = time.monotonic() + self._patience
        while True:
            try:
                with self._failures("migrate"), self._engine.connect() as connection:
                    mode = connection.exec_driver_sql("PRAGMA journal_mode=WAL").scalar_one()
                break
            except LedgerError as error:
                locked = isinstance(error.__cause__, OperationalError) and "locked" in error.message
                if not locked or time.monotonic() >= until:
                    raise
                time.sleep(_PAUSE)
        if mode != "wal":
            raise LedgerError(
                f"SQLite cannot use a write-ahead log here, only journal mode {mode!r}",
                where=self.place,
                fix="put the file on a local disk; on a network drive use PostgreSQL",
            )
