"""The ledger: everything CaMVo must not forget, in one SQL database.

The state of every question is the sum of the events in here, in order. Beside the events stand the rounds
they came from, the answers that were paid for, the money, the human annotations and snapshots of states.
Each module holds the functions of one of these; they take a SQLAlchemy ``Connection`` and leave the
transaction to the caller: ``Ledger.read``, ``Ledger.write`` or ``Writer.run``. Time is always unix seconds
that the caller passes in.
"""

from __future__ import annotations

from backend.ledger.database.ledger import Ledger
from backend.ledger.database.writer import Writer

__all__ = ["Ledger", "Writer", "migrate"]


def migrate(url: str) -> str:
    """Bring the ledger up to date, once and before any worker opens it.

    Returns:
        Where it is, as a text for people, without a password.

    Raises:
        LedgerError: it cannot be opened, or was written by a newer version of CaMVo.
    """
    ledger = Ledger(url)
    try:
        ledger.migrate()
    finally:
        ledger.close()
    return ledger.place
