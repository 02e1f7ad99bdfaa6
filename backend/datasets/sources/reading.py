"""Opening a source's file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from backend.errors import DatasetError


@contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading bytes.

    Raises:
        DatasetError: it cannot be opened or read.
    """
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise DatasetError(
            f"cannot be read: {error.strerror or type(error).__name__}",
            where=str(path),
            fix="check the path and the rights",
        ) from error
