"""Spare room on the disk of an SQLite ledger, for a process that ends when the disk is full.

The process keeps a file beside the ledger. When the disk is found full, it starts no further call and
gives the file up, so that what is under way can still be stored. The file has no name: it is gone with the
process, also after ``kill -9``.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from tempfile import TemporaryFile
from typing import IO

from backend.errors import LedgerError, LedgerFullError
from backend.ledger.database.database import Ledger

_BYTES = 8 * 2**20
"""Some hundred answers with the pages of the tables that they change."""

_PATIENCE = 30.0
"""Seconds for which writes are tried again after the disk was found full."""


class SpareRoom:
    """One process's spare room. Any thread may use it.

    Args:
        ledger: its ledger; PostgreSQL has no room that a client could keep.
        clock: monotonic seconds.

    Raises:
        LedgerFullError: there is no room to keep.
    """

    def __init__(self, ledger: Ledger, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._place = clock, ledger.place
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
                self._found_at = self._clock()
                self.give_up()
        return self._full() if self._clock() - self._found_at >= _PATIENCE else error

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
                raise self._full() from error
            on_failure.pop_all()
            return file
