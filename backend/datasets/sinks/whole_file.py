"""A file that appears only when it is complete."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from backend.errors import DatasetError


class WholeFile:
    """Writes beside the wanted path, and moves the file there at the end.

    So an interrupted run leaves the file of the run before as it was.

    Raises:
        DatasetError: on entering, the folder cannot be written to.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._beside = path.with_name(f".{path.name}.{os.getpid()}.part")

    def __enter__(self) -> BinaryIO:
        try:
            self._file = self._beside.open("wb")
        except OSError as error:
            raise DatasetError(
                f"cannot be written: {error.strerror}", where=str(self._path), fix="choose another folder"
            ) from error
        return self._file

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        if error is None:
            self._beside.replace(self._path)
        else:
            self._beside.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Check that a file can be written, before anything is spent.

    Raises:
        DatasetError: it cannot.
    """
    with contextlib.suppress(_Unwanted), WholeFile(path):
        raise _Unwanted


class _Unwanted(Exception):  # noqa: N818 - no error
    """Ends the writing of a file that is not wanted."""
