"""SQLAlchemy engines for SQLite and PostgreSQL, and how a transaction begins in each."""

from __future__ import annotations

from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, OperationalError

from backend.errors import LedgerError
from backend.ledger.database.failures import place

_MODE = "camvo_mode"
_WRITE_LOCK = 0x43614D566F  # number of the PostgreSQL advisory lock that serialises writers: "CaMVo"

_CHECKPOINT_PAGES = 8_192
"""Pages (32 MB) in SQLite's write-ahead log at which a commit copies them into the database file.

That commit is slow, so it should be rare; SQLite's default is 1,000 pages. Only commits run checkpoints:
SQLite up to version 3.51.2 can lose a write while another connection runs one (the "WAL-reset bug")."""


def normalise(url: str) -> URL:
    """Parse a database URL, with psycopg 3 as the PostgreSQL driver.

    Raises:
        LedgerError: the text is not a URL, or CaMVo does not support the database.
    """
    where = "CAMVO_DATABASE_URL"
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


def create(url: URL, patience: float) -> Engine:
    """Create an engine without a transaction mode; on SQLite its statements run outside a transaction.

    Args:
        url: as :func:`normalise` returns it.
        patience: seconds that a writer waits for its turn.

    Raises:
        LedgerError: the driver is not installed.
    """
    # Parameters hold texts of tasks and answers, which must not appear in the text of an exception.
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, connect_args={"timeout": patience}, hide_parameters=True)
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        event.listen(engine, "commit", _refuse_to_commit_nothing)
        return engine
    try:
        engine = create_engine(url, pool_pre_ping=True, hide_parameters=True)
    except ImportError as error:
        raise LedgerError(
            "the PostgreSQL driver is not installed", where=place(url), fix='pip install "camvo[postgres]"'
        ) from error

    def begin(connection: Connection) -> None:
        if _mode(connection) == "write":
            _take_turn(connection, patience)

    event.listen(engine, "begin", begin)
    return engine


def reader(engine: Engine) -> Engine:
    """Return the engine for read-only transactions that see one snapshot."""
    if engine.dialect.name == "sqlite":
        return engine.execution_options(**{_MODE: "read"})
    return engine.execution_options(
        **{_MODE: "read"}, isolation_level="REPEATABLE READ", postgresql_readonly=True
    )


def writer(engine: Engine) -> Engine:
    """Return the engine for write transactions, of which one runs at a time."""
    return engine.execution_options(**{_MODE: "write"})


def _mode(connection: Connection) -> str | None:
    mode: str | None = connection.get_execution_options().get(_MODE)
    return mode


def _set_up_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver's own transactions begin too late
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that reads before it writes fails if another one wrote in between, so writers begin with
    # IMMEDIATE. A reader that tries to write fails at once.
    mode = _mode(connection)
    if mode is not None:
        if connection.info.get(_MODE) != mode:
            connection.exec_driver_sql(f"PRAGMA query_only={'OFF' if mode == 'write' else 'ON'}")
            connection.info[_MODE] = mode
        connection.exec_driver_sql("BEGIN IMMEDIATE" if mode == "write" else "BEGIN")


def _refuse_to_commit_nothing(connection: Connection) -> None:
    # On a full disk SQLite rolls back by itself, and the driver's commit() would then silently do nothing.
    driver: Any = connection.connection.dbapi_connection
    if not driver.in_transaction:
        raise OperationalError("COMMIT", None, RuntimeError("SQLite rolled the transaction back by itself"))


def _take_turn(connection: Connection, patience: float) -> None:
    milliseconds = str(round(patience * 1000))
    connection.execute(text("SELECT set_config('lock_timeout', :value, true)"), {"value": milliseconds})
    connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _WRITE_LOCK})
