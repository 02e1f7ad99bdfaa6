"""The ledger that commit d9d5b7b wrote, in the schema of the first release (revision 0004)."""

from __future__ import annotations

import sqlite3
from pathlib import Path

PROJECT, CONTROL, EPOCH = "7.1772357415", "mood", "d882fb41be6cafc5"

_DUMP = Path(__file__).parent.parent / "backend" / "ledger" / "ledger_of_d9d5b7b.sql"


def restore(path: Path) -> str:
    """Write the dump to a file and return its URL."""
    database = sqlite3.connect(path)
    database.executescript(_DUMP.read_text())
    database.close()
    return f"sqlite:///{path}"
