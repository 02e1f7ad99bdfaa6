"""Turn database failures into errors that say what to do, and whether the failure may pass."""

from __future__ import annotations

import sqlite3

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from backend.errors import LedgerError

_FIXES = {
    "connection": "check that the database server runs and that CAMVO_DATABASE_URL is correct",
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
"""How the SQLSTATE of a failure that may pass begins."""


def place(url: URL) -> str:
    """Return the address for display, without password and query string, which may hold a password too."""
    return url.set(query={}).render_as_string(hide_password=True)


def ledger_error(error: SQLAlchemyError, url: URL) -> LedgerError:
    """Convert a database failure; the message is the driver's first line, which quotes no values."""
    message = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    reason = (message.strip().splitlines() or [type(error).__name__])[0]
    lower = message.lower()
    fix = next((fix for sign, fix in _FIXES.items() if sign in lower), _DEFAULT_FIX)
    return LedgerError(reason, where=place(url), fix=fix, temporary=is_outage(error))


def is_outage(error: SQLAlchemyError) -> bool:
    """Whether the database is down, full, locked or read-only, so that the same may succeed later.

    Wrong values, wrong statements, broken constraints, missing tables and damaged files are no outages.
    """
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
