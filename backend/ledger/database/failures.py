"""What a database's failure means for the person who runs CaMVo."""

from __future__ import annotations

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from backend.errors import LedgerError

_FIXES = {
    "connection": "check that the database server runs and that CAMVO_DATABASE_URL names it rightly",
    "locked": "another process holds the ledger for long; find the one that hangs, or try again",
    "lock timeout": "another process holds the ledger for long; find the one that hangs, or try again",
    "no such table": "migrate the ledger: `camvo serve` does so when it starts",
    "no such column": "migrate the ledger: `camvo serve` does so when it starts",
    "does not exist": "migrate the ledger: `camvo serve` does so when it starts",
    "unable to open": "create the folder and let this user write to it, or change CAMVO_DATABASE_URL",
    "readonly": "let this user write to the ledger's file and to its folder",
    "disk is full": "free some disk space; nothing that was acknowledged is lost",
    "malformed": "restore the file from a backup, or change CAMVO_DATABASE_URL",
    "not a database": "restore the file from a backup, or change CAMVO_DATABASE_URL",
}
_ANY_FIX = "see the log of the database; nothing that was acknowledged is lost"


def place(url: URL) -> str:
    """The database as a text for people: no password, and no query, which can hold one too."""
    return url.set(query={}).render_as_string(hide_password=True)


def ledger_error(error: SQLAlchemyError, url: URL) -> LedgerError:
    """The error to raise for ``error``: the first line of what the driver says, which quotes no values."""
    said = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    reason = (said.strip().splitlines() or [type(error).__name__])[0]
    lower = said.lower()
    fix = next((fix for sign, fix in _FIXES.items() if sign in lower), _ANY_FIX)
    return LedgerError(reason, where=place(url), fix=fix)
