"""The ledger's database: migrating it, reading it and writing it.

SQLite and PostgreSQL give the same guarantees:

- A read transaction sees one snapshot and never waits.
- Only one write transaction runs at a time, over all processes. A committed write is on the disk.

With one writer at a time there are no deadlocks, lost updates or gaps in a sequence, and a function may read
before it writes without a further lock. The group commit (``writer.py``) makes that fast.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Final, TypeVar
from urllib.parse import urlsplit

import structlog
from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from backend.errors import LedgerError, LedgerFullError
from backend.ledger.database.statements import option
from backend.ledger.database.tables import metadata

_T = TypeVar("_T")


DATABASE_URL: Final = "CAMVO_DATABASE_URL"
"""The variable that has the address of the server's ledger."""

_FIXES = {
    "connection": "check that the database server runs and that this is its address",
    "locked": "another process holds the ledger; find the one that hangs, or try again",
    "lock timeout": "another process holds the ledger; find the one that hangs, or try again",
    "no such table": "migrate the ledger: `camvo serve` and `camvo check` do so when they start",
    "no such column": "migrate the ledger: `camvo serve` and `camvo check` do so when they start",
    "does not exist": "migrate the ledger: `camvo serve` and `camvo check` do so when they start",
    "unable to open": "create the folder and allow this user to write to it, or change CAMVO_DATABASE_URL",
    "was moved or deleted": "move the ledger's file back; nothing was written elsewhere meanwhile",
    "there is no file": "move the ledger's file back, or migrate the ledger: `camvo serve` creates one",
    "readonly": "allow this user to write to the ledger's file and to its folder",
    "disk is full": "free some disk space; no acknowledged write is lost",
    "malformed": "restore the file from a backup, or change CAMVO_DATABASE_URL",
    "not a database": "restore the file from a backup, or change CAMVO_DATABASE_URL",
}
_DEFAULT_FIX = "see the log of the database; no acknowledged write is lost"

_SQLITE_OUTAGES = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_READONLY,
}
"""SQLite's primary result codes for a file that cannot be used at the moment."""

_PRIMARY_CODE = 0xFF

_POSTGRESQL_FULL = "53100"

_POSTGRESQL_OUTAGES = (
    "08",  # the connection failed
    "25006",  # the server is a read-only standby
    "25P03",  # the server ended a transaction that was idle for too long
    "25P04",  # the server ended a transaction that took too long
    "40",  # rolled back, such as after a deadlock
    "53",  # the disk or the memory is full, or there are too many connections
    "55P03",  # a lock was not available in time
    "57",  # cancelled by a time-out or by an operator: the server stops, starts or has crashed
    "58",  # input or output failed
)
"""Prefixes of the SQLSTATE of temporary failures."""


def _place(url: URL) -> str:
    """Return the address for display, without password and query string, which may hold a password too."""
    return url.set(query={}).render_as_string(hide_password=True)


def _ledger_error(error: SQLAlchemyError, url: URL) -> LedgerError:
    """Convert a database failure; the message is the driver's first line, which quotes no values."""
    message = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    reason = (message.strip().splitlines() or [type(error).__name__])[0]
    lower = message.lower()
    fix = next((fix for sign, fix in _FIXES.items() if sign in lower), _DEFAULT_FIX)
    where, temporary = _place(url), _is_outage(error)
    if temporary and _is_full(error, url):
        fix = _FIXES["disk is full"]
        return LedgerFullError(f"the disk is full: {reason}", where=where, fix=fix, temporary=True)
    return LedgerError(reason, where=where, fix=fix, temporary=temporary)


def _is_outage(error: SQLAlchemyError) -> bool:
    """Whether the database is down, full, locked or read-only, so that a retry may succeed later."""
    if isinstance(error, PoolTimeoutError):
        return True
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        return code & _PRIMARY_CODE in _SQLITE_OUTAGES
    state = getattr(error.orig, "sqlstate", None)
    if state is not None:
        return str(state).startswith(_POSTGRESQL_OUTAGES)
    # Without a code, the server was not reached or broke off, or CaMVo itself refused the file.
    return isinstance(error, OperationalError | InterfaceError)


_LEAST_ROOM = 65_536
"""Free bytes on a disk below which a failure to write is taken for a lack of room."""


def _is_full(error: SQLAlchemyError, url: URL) -> bool:
    """Whether there is no room on the disk, which SQLite reports as other failures, too."""
    cause = error.orig if isinstance(error, DBAPIError) else None
    if url.get_backend_name() != "sqlite":
        return getattr(cause, "sqlstate", None) == _POSTGRESQL_FULL
    code = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_IOERR) & _PRIMARY_CODE
    if code not in {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}:
        return code == sqlite3.SQLITE_FULL
    try:
        disk = os.statvfs(_SqliteFile(url).path.parent)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _LEAST_ROOM


_Identity = tuple[int, int]
"""A file's device and inode."""


class _SqliteFile:
    """The ledger's file."""

    def __init__(self, url: URL) -> None:
        name = str(url.database)
        self._is_uri = name.startswith("file:")
        self.path = Path(urlsplit(name).path if self._is_uri else name).absolute()

    def exists(self) -> bool:
        """Whether the file is there."""
        return self.path.exists()

    def create(self) -> None:
        """Create an empty file, which SQLite takes for a new database, unless there is one or cannot be.

        It holds the texts of tasks, so only its owner may read it. SQLite gives the files beside it its mode.
        """
        if not self._is_uri:
            with suppress(OSError):
                os.close(os.open(self.path, os.O_CREAT | os.O_WRONLY, 0o600))

    def address(self, name: str) -> str:
        """Return what to open in place of ``name``, so that a missing file is not created."""
        if self._is_uri:
            return name
        if self.path.parent.is_dir() and not self.path.exists():
            raise OperationalError("CONNECT", None, FileNotFoundError(f"there is no file {self.path}"))
        return f"{self.path.as_uri()}?mode=rw"

    def identity(self) -> _Identity | None:
        """Return what distinguishes the file at the path from any other; ``None`` if there is no file."""
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def check(self, connection: Connection) -> None:
        """Check that the file at the path is the one that a connection has opened."""
        if self.identity() != connection.info[_FILE]:
            connection.invalidate()
            reason = f"the file {self.path} was moved or deleted while it was open"
            raise OperationalError("BEGIN", None, FileNotFoundError(reason))


_MODE = "camvo_mode"
_UNBOUNDED = "camvo_unbounded"
_FILE = "camvo_file"
_WRITE_LOCK = 0x43614D566F  # number of the PostgreSQL advisory lock that serialises writers: "CaMVo"

_LOCK = text("SELECT pg_advisory_xact_lock(:number)")
_SET_LIMITS = text(
    "SELECT set_config('lock_timeout', :lock, true), set_config('statement_timeout', :statement, true), "
    "set_config('idle_in_transaction_session_timeout', :idle, true)"
)

_SLOWEST = 5.0
"""Seconds beyond the patience after which the server cancels a statement of a write transaction."""

_LAST_RESORT = 10.0
"""Seconds beyond the patience after which a connection is closed whose server says nothing at all."""

_CONNECT = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""A server whose host is gone is noticed within a minute, not after the hours of the system's defaults."""

_CHECKPOINT_PAGES = 8_192
"""Pages (32 MB) in SQLite's write-ahead log at which a commit copies them into the database file.

That commit is slow, so it should be rare; SQLite's default is 1,000 pages. Only commits run checkpoints:
SQLite up to version 3.51.2 can lose a write while another connection runs one (the "WAL-reset bug")."""


def _normalise(url: str, where: str) -> URL:
    """Parse a database URL, with psycopg 3 as the PostgreSQL driver."""
    fix = "set it to sqlite:///camvo.sqlite or postgresql://user:password@host/database"
    try:
        parsed = make_url(f"postgresql://{url[11:]}" if url.startswith("postgres://") else url)
    except (ArgumentError, ValueError):
        # The text may contain a password, so neither it nor the error that quotes it is shown.
        raise LedgerError("the value is not a database URL", where=where, fix=fix) from None
    backend = parsed.get_backend_name()
    if backend == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise LedgerError(f"CaMVo does not support {backend} databases", where=where, fix=fix)
    if parsed.database in {None, "", ":memory:"} or parsed.query.get("mode") == "memory":
        raise LedgerError("the ledger cannot be in memory: paid answers would be lost", where=where, fix=fix)
    return parsed


def _create(url: URL, patience: float, clock: Callable[[], float]) -> Engine:
    """Create an engine without a transaction mode; on SQLite its statements run outside a transaction."""
    # Parameters hold texts of tasks and answers, which must not appear in the text of an exception.
    if url.get_backend_name() == "sqlite":
        engine = create_engine(
            url, connect_args={"timeout": patience}, hide_parameters=True, execution_options=option(clock)
        )
        _set_up_sqlite(engine, _SqliteFile(url))
        return engine
    try:
        from backend.ledger.database.bounded_connection import BoundedConnection  # noqa: PLC0415 - an extra

        engine = create_engine(url, connect_args=_CONNECT, pool_pre_ping=True, hide_parameters=True)
    except ImportError as error:
        raise LedgerError(
            "the PostgreSQL driver is not installed", where=_place(url), fix='pip install "camvo[postgres]"'
        ) from error

    def connect(_dialect: object, _record: object, names: Sequence[Any], options: Mapping[str, Any]) -> Any:
        connection = BoundedConnection.connect(*names, **options)
        connection.patience = patience + _LAST_RESORT
        return connection

    def begin(connection: Connection) -> None:
        options = connection.get_execution_options()
        bounded = not options.get(_UNBOUNDED, False)
        driver: Any = connection.connection.dbapi_connection
        driver.patience = patience + _LAST_RESORT if bounded else None
        if options.get(_MODE) == "write":
            _take_turn(connection, patience, bounded=bounded)

    event.listen(engine, "do_connect", connect)
    event.listen(engine, "begin", begin)
    return engine


def _reader(engine: Engine) -> Engine:
    """Return the engine for read-only transactions that see one snapshot."""
    if engine.dialect.name == "sqlite":
        return engine.execution_options(**{_MODE: "read"})
    return engine.execution_options(
        **{_MODE: "read"}, isolation_level="REPEATABLE READ", postgresql_readonly=True
    )


def _unbounded(engine: Engine) -> Engine:
    """Return the engine for migrations: write transactions whose statements may take any time."""
    return engine.execution_options(**{_MODE: "write", _UNBOUNDED: True})


def _set_up_sqlite(engine: Engine, file: _SqliteFile) -> None:
    def do_connect(
        _dialect: object, _record: object, names: list[Any], options: dict[str, Any]
    ) -> None:  # the dialect then connects with what is changed here
        names[0], options["uri"] = file.address(names[0]), True

    def connect(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # the driver's own transactions begin too late
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
        record.info[_FILE] = file.identity()

    def begin(connection: Connection) -> None:
        # A transaction that reads before it writes fails if another one wrote in between, so writers begin
        # with IMMEDIATE. A reader that tries to write fails at once.
        mode: str | None = connection.get_execution_options().get(_MODE)
        if mode is not None:
            file.check(connection)
            if connection.info.get(_MODE) != mode:
                connection.exec_driver_sql(f"PRAGMA query_only={'OFF' if mode == 'write' else 'ON'}")
                connection.info[_MODE] = mode
            connection.exec_driver_sql("BEGIN IMMEDIATE" if mode == "write" else "BEGIN")

    def commit(connection: Connection) -> None:
        if connection.get_execution_options().get(_MODE) == "write":
            file.check(connection)
        # On a full disk SQLite rolls back on its own. The driver's commit() would then silently do nothing.
        driver: Any = connection.connection.dbapi_connection
        if not driver.in_transaction:
            raise OperationalError(
                "COMMIT", None, RuntimeError("SQLite rolled the transaction back by itself")
            )

    event.listen(engine, "do_connect", do_connect)
    event.listen(engine, "connect", connect)
    event.listen(engine, "begin", begin)
    event.listen(engine, "commit", commit)


def _take_turn(connection: Connection, patience: float, *, bounded: bool) -> None:
    """Wait for the turn, and let the server end a transaction that hangs: all other writers wait for it."""
    statement, idle = (patience + _SLOWEST, patience) if bounded else (0.0, 0.0)
    seconds = {"lock": patience, "statement": statement, "idle": idle}
    connection.execute(_SET_LIMITS, {name: str(round(limit * 1000)) for name, limit in seconds.items()})
    connection.execute(_LOCK, {"number": _WRITE_LOCK})


_PATIENCE = 30.0
"""Seconds that a writer waits for its turn before it fails."""

_PAUSE = 0.02
_log = structlog.get_logger(__name__)


def file_of(connection: Connection) -> Path | None:
    """Return the SQLite file that a connection is to; ``None`` for any other database."""
    return _SqliteFile(connection.engine.url).path if connection.dialect.name == "sqlite" else None


@cache
def _head() -> str:
    """The newest revision: the names of the migrations' files begin with theirs."""
    folder = Path(__file__).parent.parent / "migrations" / "versions"
    return max(path.name for path in folder.glob("[0-9]*.py")).partition("_")[0]


def _revision(connection: Connection) -> str | None:
    """The revision of the tables; ``None`` if there are none."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return revision


class Ledger:
    """One database. It is opened at the first use and must be migrated before any other use.

    Args:
        url: ``sqlite:///file`` or ``postgresql://user:password@host/database``.
        patience: seconds that a writer waits for its turn.
        clock: unix seconds; the ledger's clock on SQLite. PostgreSQL has its own.
        source: the variable or argument that the URL is from, for errors.

    Raises:
        LedgerError: the URL cannot be parsed, or CaMVo does not support its database.
    """

    def __init__(
        self,
        url: str,
        *,
        patience: float = _PATIENCE,
        clock: Callable[[], float] = time.time,
        source: str = DATABASE_URL,
    ) -> None:
        self._url = _normalise(url, source)
        self._patience = patience
        self._works: dict[str, bool] = {}
        self._engine = _create(self._url, patience, clock)
        self._reader, self._writer = _reader(self._engine), self._engine.execution_options(**{_MODE: "write"})

    @property
    def place(self) -> str:
        """The database's address for display, without password."""
        return _place(self._url)

    @property
    def file(self) -> Path | None:
        """The SQLite file; ``None`` for any other database."""
        return _SqliteFile(self._url).path if self._engine.dialect.name == "sqlite" else None

    @property
    def folder(self) -> Path | None:
        """The folder of an SQLite file; ``None`` for any other database."""
        return None if self.file is None else self.file.parent

    @property
    def is_down(self) -> bool:
        """Whether the latest write failed in a way that may pass."""
        return not self._works.get("write", True)

    def exists(self) -> bool:
        """Whether there is anything to read. A missing SQLite file is not created, as opening it would."""
        return self._engine.dialect.name != "sqlite" or _SqliteFile(self._url).exists()

    def migrate(self) -> None:
        """Create or update the tables. Several processes may do it at once.

        Raises:
            LedgerError: the database cannot be opened, or its tables are of another version of CaMVo.
        """
        if self._engine.dialect.name == "sqlite":
            _SqliteFile(self._url).create()
            self._switch_to_wal()
        with self._transaction(_unbounded(self._engine)) as connection:
            if _revision(connection) != _head():
                self._upgrade(connection)

    def _upgrade(self, connection: Connection) -> None:
        from alembic import command  # noqa: PLC0415 - slow to import, and seldom needed
        from alembic.config import Config  # noqa: PLC0415
        from alembic.util import CommandError  # noqa: PLC0415

        config = Config()
        config.set_main_option("script_location", "backend.ledger:migrations")
        config.attributes["connection"] = connection
        try:
            if inspect(connection).has_table("alembic_version"):
                command.upgrade(config, "head")
            else:
                metadata.create_all(connection, checkfirst=False)
                command.stamp(config, "head")
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
        head = _head()
        with self.read() as connection:
            revision = _revision(connection)
        if revision != head:
            raise LedgerError(
                f"the ledger's tables are of revision {revision}, and this CaMVo needs {head}",
                where=self.place,
                fix="run `camvo check` to migrate it, or use the version of CaMVo that wrote it",
            )

    def compact(self) -> None:
        """Free the space of deleted rows in a SQLite file. PostgreSQL reuses it automatically.

        The file is rewritten, so writers wait and the disk must have room for a second one.

        Raises:
            LedgerError: the database failed; it is as it was.
        """
        if self._engine.dialect.name == "sqlite":
            self.close()  # connections that have read are read-only
            with self._failures("compact"), self._engine.connect() as connection:
                connection.exec_driver_sql("VACUUM")
                # The new file is in the log first, and stays there as long as a server has the ledger open.
                connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")

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
            failure = _ledger_error(error, self._url)
            if failure.temporary and self._works.get(work, False):
                self._works[work] = False
                _log.error("ledger_down", work=work, code=failure.code, reason=str(failure))
            raise failure from error
        if not self._works.setdefault(work, True):
            self._works[work] = True
            _log.warning("ledger_back", work=work, where=self.place)

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


_BYTES = 8 * 2**20
"""Some hundred answers with the pages of the tables that they change."""

_HOPE = 30.0
"""Seconds for which writes are tried again after the disk was found full."""


class SpareRoom:
    """A file beside an SQLite ledger, given up when the disk is full: what is under way can be stored then.

    No further call starts then. The file has no name: it is gone with the process, also after ``kill -9``.
    Any thread may use it.

    Args:
        ledger: its ledger; PostgreSQL has no room that a client could keep.

    Raises:
        LedgerFullError: there is no room to keep.
        LedgerError: the ledger's folder cannot be written to.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._place = ledger.place
        self._found_at: float | None = None
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None
        if ledger.folder is not None:
            self._file = self._reserved(str(ledger.folder))

    def judged(self, error: LedgerError) -> LedgerError:
        """Take note of a failed write; return the error, as one that does not pass if the disk stays full."""
        if not isinstance(error, LedgerFullError):
            return error
        with self._lock:
            if self._found_at is None:
                self._found_at = time.monotonic()
                self.give_up()
        return self._full() if time.monotonic() - self._found_at >= _HOPE else error

    def check(self) -> None:
        """Return if the disk was never found full.

        Raises:
            LedgerFullError: it was, so no call may start.
        """
        if self._found_at is not None:
            raise self._full()

    def give_up(self) -> None:
        """Free the room."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _full(self) -> LedgerFullError:
        return LedgerFullError(
            "the disk is full",
            where=self._place,
            fix="make room, and run the same command again: what is paid for is stored",
        )

    def _reserved(self, folder: str) -> IO[bytes]:
        with contextlib.ExitStack() as on_failure:
            try:
                file = on_failure.enter_context(TemporaryFile(dir=folder))
                file.write(os.urandom(_BYTES))  # zeros take no room where the disk compresses
                file.flush()
            except OSError as error:
                if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                    raise self._full() from error
                reason = (
                    f"the folder of its file cannot be written to: {error.strerror or type(error).__name__}"
                )
                raise LedgerError(reason, where=self._place, fix=_FIXES["readonly"]) from error
            on_failure.pop_all()
            return file
