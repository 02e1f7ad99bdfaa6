"""Atomic writes, and checks that a file or folder can be written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from backend.errors import ReplayError


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Open a stream whose content replaces ``path`` when the block ends, or is dropped if it fails.

    Raises:
        ReplayError: the file cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as stream:
            yield stream
        draft.replace(path)
    except OSError as error:
        raise ReplayError(f"cannot be written ({error.strerror})", where=str(path)) from error
    finally:
        draft.unlink(missing_ok=True)


def require_writable_file(path: Path, what: str) -> None:
    """Check that a file can be written, before hours of work.

    Raises:
        ReplayError: the path is a folder, or its folder is missing or cannot be written to.
    """
    if path.is_dir():
        raise ReplayError("is a folder, not a file", where=f"{what} {path}", fix="give the path of a file")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
        raise ReplayError(
            "its folder is missing or cannot be written to",
            where=f"{what} {path}",
            fix="create the folder, or give another path",
        )


def require_writable_folder(path: Path, what: str) -> None:
    """Check that a folder can be written to, or created together with its parents.

    Raises:
        ReplayError: the path is a file, or the folder cannot be created or written to.
    """
    nearest = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise ReplayError(
            f"{nearest} is not a folder that can be written to",
            where=f"{what} {path}",
            fix="give another folder",
        )
