"""The folder of a report. Only files of an earlier report are ever replaced."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from camvo.errors import CamvoError

PAGE = "index.html"
MARK = '<meta name="generator" content="camvo replay">'
_PICTURES = ("blocks", "calls", "cost-accuracy", "over-rounds", "reliability", "risk-coverage")
_OURS = (*(f"{name}.{kind}" for name in _PICTURES for kind in ("png", "svg")), PAGE)
"""Every file that a report may have; the page comes last."""


def require_replaceable(directory: Path) -> None:
    """Refuse a folder that a report must not be written to. Unrelated files in it are left alone.

    Raises:
        CamvoError: the path is not a folder, or has a file of that name that no report wrote.
    """
    try:
        if directory.exists() and not directory.is_dir():
            raise CamvoError("is not a folder", where=str(directory), fix="give --report another folder")
        existing = [name for name in _OURS if (directory / name).exists()]
        if existing and not _is_report(directory / PAGE):
            raise CamvoError(
                f"has a file {existing[0]} that is not from a report",
                where=str(directory),
                fix="give --report another folder",
            )
    except OSError as error:
        raise _unwritable(directory, error) from error


@contextmanager
def new_report_folder(directory: Path) -> Iterator[Path]:
    """Open a temporary folder that becomes the report when the block ends, or is dropped if it fails.

    A new report appears as a whole. In an existing folder, its files replace those of an earlier report one
    by one, the page last; pictures that the new report lacks are removed.

    Raises:
        CamvoError: as :func:`require_replaceable`, or the folder cannot be written.
    """
    require_replaceable(directory)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        near = directory if directory.exists() else directory.parent
        with tempfile.TemporaryDirectory(dir=near, prefix=".camvo-report-") as folder:
            new = Path(folder) / "report"
            new.mkdir()
            yield new
            _place(new, directory)
    except OSError as error:
        raise _unwritable(directory, error) from error


def _place(new: Path, directory: Path) -> None:
    if not directory.exists():
        new.rename(directory)
        return
    for name in _OURS:
        if (new / name).exists():
            os.replace(new / name, directory / name)
        else:
            (directory / name).unlink(missing_ok=True)


def _is_report(page: Path) -> bool:
    return page.is_file() and MARK in page.read_text(encoding="utf-8", errors="replace")


def _unwritable(directory: Path, error: OSError) -> CamvoError:
    return CamvoError(
        f"the report cannot be written: {error.strerror or error}",
        where=str(directory),
        fix="give --report another folder",
    )
