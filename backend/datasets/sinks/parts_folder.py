"""The folder of the parts of a run: on a disk that every host mounts, or in an object store."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from backend.datasets.sinks.object_folder import ObjectFolder
from backend.datasets.sinks.whole_file import WholeFile, check_writable
from backend.errors import ConfigError, DatasetError


class PartsFolder(Protocol):
    """A folder to which several processes write files. It can be sent to other hosts."""

    @property
    def name(self) -> str:
        """Its name for people, without a secret."""

    def prepare(self) -> None:
        """Check that files can be written and removed, before anything is spent.

        Raises:
            ConfigError: it can be no folder.
            DatasetError: nothing can be written there.
        """

    def file(self, name: str) -> AbstractContextManager[BinaryIO]:
        """A file to write. It appears under its name when it is complete, and never if its writing fails.

        Raises:
            DatasetError: on entering or at the end, it cannot be written.
        """

    def names(self) -> list[str]:
        """The names of the files in it."""

    def remove(self, names: Iterable[str]) -> None:
        """Remove files."""


def parts_folder(out: str) -> PartsFolder:
    """The folder that ``--out`` names.

    Args:
        out: a path, or the address of a folder in an object store, such as ``s3://bucket/labels/``.

    Raises:
        ConfigError: the address has a scheme that is not known, or a secret in it.
    """
    return ObjectFolder.at(out) if "://" in out else LocalFolder(Path(out).resolve())


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """A folder of this host. Other hosts must see it under the same path.

    Attributes:
        path: its absolute path.
    """

    path: Path

    @property
    def name(self) -> str:
        """Its path."""
        return str(self.path)

    def prepare(self) -> None:
        """Make the folder, and check that files can be written there.

        Raises:
            ConfigError: it is a file.
            DatasetError: it cannot be written to.
        """
        if self.path.suffix and not self.path.is_dir():
            raise ConfigError(
                f"{self.name} is no folder",
                where="--out",
                fix="with --engine, name a folder for the parts, as labels/",
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DatasetError(
                f"cannot be made: {error.strerror or type(error).__name__}",
                where=self.name,
                fix="check the path",
            ) from error
        check_writable(self.path / "check")

    def file(self, name: str) -> WholeFile:
        """A file that is written beside its place and moved there at the end."""
        return WholeFile(self.path / name)

    def names(self) -> list[str]:
        """The names of the files in it."""
        return [path.name for path in self.path.iterdir()]

    def remove(self, names: Iterable[str]) -> None:
        """Remove files."""
        for name in names:
            (self.path / name).unlink(missing_ok=True)
