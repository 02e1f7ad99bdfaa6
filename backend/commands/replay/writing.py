"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from backend.errors import ReplayError


@contextmanager
def written(path: Path) -> Iterator[BinaryIO]:
    """A stream whose content gets the name ``path`` when the block ends, and none if it fails.

    Raises:
        ReplayError: it cannot be written.
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


def check_file(path: Path, what: str) -> None:
    """Find out before hours of work that a file cannot be written.

    Raises:
        ReplayError: it is a folder, or its own folder is missing or not to be written to.
    """
    if path.is_dir():
        raise ReplayError("is a folder, not a file", where=f"{what} {path}")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
        raise ReplayError("its folder is missing or cannot be written to", where=f"{what} {path}")


def check_folder(path: Path, what: str) -> None:
    """The same for a folder, which may be made together with those above it.

    Raises:
        ReplayError: it is a file, or cannot be made or written to.
    """
    there = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise ReplayError(f"{there} is no folder that can be written to", where=f"{what} {path}")
