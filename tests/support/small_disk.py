"""A disk for a ledger that a test fills and empties again."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import psutil  # type: ignore[import-untyped]
import pytest
from server_process import ServerProcess

_BLOCK = b"\0" * 65_536


class Disk(Protocol):
    """A folder for a ledger, on a disk that can be full."""

    folder: Path

    def fill(self, server: ServerProcess) -> None:
        """Let the server's writes fail from now on."""

    def empty(self, server: ServerProcess) -> None:
        """Let them succeed again."""


@contextmanager
def real_disk(folder: Path, megabytes: int = 32) -> Iterator[Tmpfs]:
    """A disk at ``folder`` that is full for every process; skips the test where none can be mounted."""
    with small_disk(folder, megabytes) as disk:
        if not isinstance(disk, Tmpfs):
            pytest.skip("this user may not mount a disk")
        yield disk


class Tmpfs:
    """A file system of its own, filled by a file: the system says ENOSPC, as on a full disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self, server: ServerProcess | None = None) -> None:
        with self._filler.open("wb", buffering=0) as filler, suppress(OSError):
            while filler.write(_BLOCK):
                pass
            while filler.write(b"\0"):
                pass

    def empty(self, server: ServerProcess | None = None) -> None:
        self._filler.unlink()


class _FileSizes:
    """A limit on the size of the server's files, for a user who may not mount: the system says EFBIG."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self, server: ServerProcess) -> None:
        largest = max(path.stat().st_size for path in self.folder.iterdir())
        self._limit(server, largest)

    def empty(self, server: ServerProcess) -> None:
        self._limit(server, resource.RLIM_INFINITY)

    def _limit(self, server: ServerProcess, size: int) -> None:
        for worker in server.workers:
            psutil.Process(worker).rlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@contextmanager
def small_disk(folder: Path, megabytes: int = 32) -> Iterator[Disk]:
    """A disk at ``folder``: a mounted tmpfs if this user may mount one."""
    folder.mkdir()
    mounted = subprocess.run(  # noqa: S603 - our own folder
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)],  # noqa: S607
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        yield _FileSizes(folder)
        return
    try:
        yield Tmpfs(folder)
    finally:
        # "lazy": a process that was just killed may still have the ledger open
        subprocess.run(["umount", "-l", str(folder)], check=True)  # noqa: S603, S607
