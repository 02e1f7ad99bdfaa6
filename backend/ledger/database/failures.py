"""Turn database failures into errors that say what to do."""

from __future__ import annotations

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from backend.errors import LedgerError

_FIXES = {
    "connection": "check that the database server runs and that CAMVO_DATABASE_URL is correct",
    "locked": "another process holds the ledger; find the one that hangs, or try again",
    "lock timeout": "another process holds the ledger; find the one that hangs, or try again",
    "no such table": "migrate the ledger: `camvo serve` and `camvo check` do so when they start",
    "no such column": "migrate the ledger: `camvo serve` and `camvo check` do so when they start",
    "does not exist": "migrate the ledger: `camvo serve` and `camvo check` do so when they start",
    "unable to open": "create the folder and allow this user to write to it, or change CAMVO_DATABASE_URL",
    "readonly": "allow this user to write to the ledger's file and to its folder",
    "disk is full": "free some disk space; no acknowledged write is lost",
    "malformed": "restore the file from a backup, or change CAMVO_DATABASE_URL",
    "not a database": "restore the file from a backup, or change CAMVO_DATABASE_URL",
}
_DEFAULT_FIX = "see the log of the database; no acknowledged write is lost"


def place(url: URL) -> str:
    """Return the address for display, without password and query string, which may hold a password too."""
    return url.set(query={}).render_as_string(hide_password=True)


def ledger_error(error: SQLAlchemyError, url: URL) -> LedgerError:
    """Convert a database failure; the message is the driver's first line, which quotes no values."""
    message = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    reason = (message.strip().splitlines() or [type(error).__name__])[0]
    lower = message.lower()
    fix = next((fix for sign, fix in _FIXES.items() if sign in lower), _DEFAULT_FIX)
    return LedgerError(reason, where=place(url), fix=fix)
