"""Whether a connection's SQLite file is still the one at its path.

A file that is moved or deleted stays open, and what is written to it is lost with the last connection.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from sqlalchemy import URL
from sqlalchemy.exc import OperationalError

_Identity = tuple[int, int]
"""A file's device and inode."""


class SqliteFile:
    """The ledger's file.

    Args:
        url: of a SQLite database that is not in memory.
    """

    def __init__(self, url: URL) -> None:
        name = str(url.database)
        self._is_uri = name.startswith("file:")
        self.path = Path(urlsplit(name).path if self._is_uri else name).absolute()

    def exists(self) -> bool:
        """Whether the file is there."""
        return self.path.exists()

    def create(self) -> None:
        """Create an empty file, which SQLite takes for a new database, unless there is one or cannot be."""
        if not self._is_uri:
            with suppress(OSError), self.path.open("ab"):
                pass

    def address(self, name: str) -> str:
        """Return what to open in place of ``name``, so that a missing file is not created.

        Raises:
            OperationalError: there is a folder, but no file in it.
        """
        if self._is_uri:
            return name
        if self.path.parent.is_dir() and not self.path.exists():
            raise OperationalError("CONNECT", None, FileNotFoundError(f"there is no file {self.path}"))
        return f"{self.path.as_uri()}?mode=rw"

    def identity(self) -> _Identity | None:
        """Return what tells the file at the path from any other one; ``None`` if there is no file."""
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def check(self, opened: _Identity | None) -> None:
        """Check that the file at the path is the one that was opened.

        Raises:
            OperationalError: it is not.
        """
        if self.identity() != opened:
            reason = f"the file {self.path} was moved or deleted while it was open"
            raise OperationalError("BEGIN", None, FileNotFoundError(reason))
