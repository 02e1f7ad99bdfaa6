"""SQLAlchemy engines for SQLite and PostgreSQL, and how a transaction begins in each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, OperationalError

from backend.errors import LedgerError
from backend.ledger.database.clock import option
from backend.ledger.database.failures import place
from backend.ledger.database.sqlite_file import SqliteFile

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


def create(url: URL, patience: float, clock: Callable[[], float]) -> Engine:
    """Create an engine without a transaction mode; on SQLite its statements run outside a transaction.

    Args:
        url: as :func:`normalise` returns it.
        patience: seconds that a writer waits for its turn.
        clock: unix seconds; the ledger's clock on SQLite.

    Raises:
        LedgerError: the driver is not installed.
    """
    # Parameters hold texts of tasks and answers, which must not appear in the text of an exception.
    if url.get_backend_name() == "sqlite":
        engine = create_engine(
            url, connect_args={"timeout": patience}, hide_parameters=True, execution_options=option(clock)
        )
        _set_up_sqlite(engine, SqliteFile(url))
        return engine
    try:
        from backend.ledger.database.bounded_connection import BoundedConnection  # noqa: PLC0415 - an extra

        engine = create_engine(url, connect_args=_CONNECT, pool_pre_ping=True, hide_parameters=True)
    except ImportError as error:
        raise LedgerError(
            "the PostgreSQL driver is not installed", where=place(url), fix='pip install "camvo[postgres]"'
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


def unbounded(engine: Engine) -> Engine:
    """Return the engine for migrations: write transactions whose statements may take any time."""
    return engine.execution_options(**{_MODE: "write", _UNBOUNDED: True})


def _set_up_sqlite(engine: Engine, file: SqliteFile) -> None:
    def do_connect(
        _dialect: object, _record: object, names: list[Any], options: dict[str, Any]
    ) -> None:  # the dialect then connects with what is changed here
        names[0], options["uri"] = file.address(names[0]), True

    def connect(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # the driver's own transactions begin too late
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
        record.info[_FILE] = file.identity()

    def check_file(connection: Connection) -> None:
        try:
            file.check(connection.info[_FILE])
        except OperationalError:
            connection.invalidate()
            raise

    def begin(connection: Connection) -> None:
        # A transaction that reads before it writes fails if another one wrote in between, so writers begin
        # with IMMEDIATE. A reader that tries to write fails at once.
        mode = _mode(connection)
        if mode is not None:
            check_file(connection)
            if connection.info.get(_MODE) != mode:
                connection.exec_driver_sql(f"PRAGMA query_only={'OFF' if mode == 'write' else 'ON'}")
                connection.info[_MODE] = mode
            connection.exec_driver_sql("BEGIN IMMEDIATE" if mode == "write" else "BEGIN")

    def commit(connection: Connection) -> None:
        if _mode(connection) == "write":
            check_file(connection)
        # On a full disk SQLite rolls back by itself. The driver's commit() would then silently do nothing.
        driver: Any = connection.connection.dbapi_connection
        if not driver.in_transaction:
            raise OperationalError(
                "COMMIT", None, RuntimeError("SQLite rolled the transaction back by itself")
            )

    event.listen(engine, "do_connect", do_connect)
    event.listen(engine, "connect", connect)
    event.listen(engine, "begin", begin)
    event.listen(engine, "commit", commit)


def _mode(connection: Connection) -> str | None:
    mode: str | None = connection.get_execution_options().get(_MODE)
    return mode


def _take_turn(connection: Connection, patience: float, *, bounded: bool) -> None:
    """Wait for the turn, and let the server end a transaction that hangs: all other writers wait for it."""
    statement, idle = (patience + _SLOWEST, patience) if bounded else (0.0, 0.0)
    seconds = {"lock": patience, "statement": statement, "idle": idle}
    connection.execute(_SET_LIMITS, {name: str(round(limit * 1000)) for name, limit in seconds.items()})
    connection.execute(_LOCK, {"number": _WRITE_LOCK})
