"""The folder that a report is in: only a report of ours is ever replaced."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from camvo.errors import CamvoError

PAGE = "index.html"
MARK = '<meta name="generator" content="camvo replay">'
_PICTURES = ("calls", "cost-accuracy", "over-rounds", "reliability", "risk-coverage")
_OURS = (*(f"{name}.{kind}" for name in _PICTURES for kind in ("png", "svg")), PAGE)
"""Every file that a report may have, the page last."""


def check(directory: Path) -> None:
    """Refuse a folder that a report must not be written to.

    Other files in it are no obstacle and stay as they are.

    Raises:
        CamvoError: it is no folder, or has a file that a report would replace and that is not a report's.
    """
    try:
        if directory.exists() and not directory.is_dir():
            raise CamvoError("this is no folder", where=str(directory), fix="name another for --report")
        found = [name for name in _OURS if (directory / name).exists()]
        if found and not _is_report(directory / PAGE):
            raise CamvoError(
                f"{found[0]} is there already and not from a report",
                where=str(directory),
                fix="name another folder for --report",
            )
    except OSError as error:
        raise _unwritable(directory, error) from error


@contextmanager
def written(directory: Path) -> Iterator[Path]:
    """A new folder to write a report to, which takes its place when the block ends and not when it fails.

    A new report appears as a whole. In a folder that exists, its files replace those of an earlier report
    one by one, the page last, and pictures that it does not have any more are removed.

    Raises:
        CamvoError: as :func:`check`, or the folder cannot be written.
    """
    check(directory)
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
        fix="name another folder for --report",
    )
