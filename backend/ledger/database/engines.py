"""How the two databases are opened, and how a transaction begins in each."""

from __future__ import annotations

from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, OperationalError

from backend.errors import LedgerError
from backend.ledger.database.failures import place

_MODE = "camvo_mode"
_WRITE_LOCK = 0x43614D566F  # the advisory lock of PostgreSQL that makes writers take turns: "CaMVo"

_PAGES = 8_192
"""Pages (32 MB) in SQLite's log at which a commit moves them into the file. Whoever waits for that commit
waits long, so it is to be rare (SQLite's own number is 1,000). It is left to commits: up to 3.51.2 SQLite can
lose what is written while another connection moves pages (its "WAL-reset bug")."""


def normalise(url: str) -> URL:
    """The URL as SQLAlchemy reads it, with psycopg 3 as PostgreSQL's driver.

    Raises:
        LedgerError: it is no URL, or of a database that holds no ledger.
    """
    where = "CAMVO_DATABASE_URL"
    fix = "set it to sqlite:///camvo.sqlite or postgresql://user:password@host/database"
    try:
        parsed = make_url(f"postgresql://{url[11:]}" if url.startswith("postgres://") else url)
    except (ArgumentError, ValueError):
        # Neither the text nor the error that quotes it is shown: a password may be in there.
        raise LedgerError("the ledger's address is no database URL", where=where, fix=fix) from None
    backend = parsed.get_backend_name()
    if backend == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise LedgerError(f"CaMVo keeps no ledger in {backend}", where=where, fix=fix)
    if parsed.database in {None, "", ":memory:"} or parsed.query.get("mode") == "memory":
        raise LedgerError(
            "a ledger needs a file: one in memory forgets what was paid for", where=where, fix=fix
        )
    return parsed


def create(url: URL, patience: float) -> Engine:
    """An engine without a mode: what is executed through it is in no transaction on SQLite.

    Raises:
        LedgerError: the driver is not installed.
    """
    # Parameters are texts of tasks and answers: they must not get into the text of an exception.
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
            "the driver for PostgreSQL is missing", where=place(url), fix='pip install "camvo[postgres]"'
        ) from error

    def begin(connection: Connection) -> None:
        if _mode(connection) == "write":
            _take_turn(connection, patience)

    event.listen(engine, "begin", begin)
    return engine


def reader(engine: Engine) -> Engine:
    """The same engine for transactions that see one snapshot and cannot write."""
    if engine.dialect.name == "sqlite":
        return engine.execution_options(**{_MODE: "read"})
    return engine.execution_options(
        **{_MODE: "read"}, isolation_level="REPEATABLE READ", postgresql_readonly=True
    )


def writer(engine: Engine) -> Engine:
    """The same engine for transactions that take turns."""
    return engine.execution_options(**{_MODE: "write"})


def _mode(connection: Connection) -> str | None:
    mode: str | None = connection.get_execution_options().get(_MODE)
    return mode


def _set_up_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver's own transactions begin late and lose to other writers
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint={_PAGES}")


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that read first and writes later fails when somebody wrote in between: hence IMMEDIATE for
    # writers, and a reader that tries to write is told so at once.
    mode = _mode(connection)
    if mode is not None:
        if connection.info.get(_MODE) != mode:
            connection.exec_driver_sql(f"PRAGMA query_only={'OFF' if mode == 'write' else 'ON'}")
            connection.info[_MODE] = mode
        connection.exec_driver_sql("BEGIN IMMEDIATE" if mode == "write" else "BEGIN")


def _refuse_to_commit_nothing(connection: Connection) -> None:
    # On a full disk SQLite rolls back by itself, and the driver's commit() would then do nothing, silently.
    driver: Any = connection.connection.dbapi_connection
    if not driver.in_transaction:
        raise OperationalError("COMMIT", None, RuntimeError("SQLite rolled the transaction back by itself"))


def _take_turn(connection: Connection, patience: float) -> None:
    milliseconds = str(round(patience * 1000))
    connection.execute(text("SELECT set_config('lock_timeout', :value, true)"), {"value": milliseconds})
    connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _WRITE_LOCK})
