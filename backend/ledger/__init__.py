"""The ledger: everything CaMVo must not forget, in one SQL database.

The state of every question is the sum of its events, in order. The ledger also holds the rounds behind the
events, the paid answers, the money, the human annotations and snapshots of states.

Each module is about one kind of record. Its classes and functions take a SQLAlchemy ``Connection``, most
classes also what they are about: a project, or a question in one epoch. They leave the transaction to the
caller: :meth:`Ledger.read`, :meth:`Ledger.write` or :meth:`Writer.run`. Times are unix
seconds, and the caller passes the current time as ``now``.
"""

from __future__ import annotations

from backend.ledger.database.database import Ledger
from backend.ledger.database.writer import LedgerAccess, Writer

__all__ = ["Ledger", "LedgerAccess", "Writer", "migrate"]


def migrate(url: str) -> str:
    """Create or update the ledger's tables. Call it once, before any worker opens the ledger.

    Args:
        url: ``sqlite:///file`` or ``postgresql://user:password@host/database``.

    Returns:
        The ledger's address for display, without a password.

    Raises:
        LedgerError: the database cannot be opened, or its tables are of another version of CaMVo.
    """
    ledger = Ledger(url)
    try:
        ledger.migrate()
    finally:
        ledger.close()
    return ledger.place
