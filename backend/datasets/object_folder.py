"""A folder in an object store, such as S3 or MinIO: files are objects whose names have one beginning."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit

from backend.datasets.sinks import check_writable, whole_file
from backend.datasets.sources import pyarrow_parquet
from backend.errors import ConfigError, DatasetError

_CODE = re.compile(r"AWS Error (\w+)(?: \(HTTP status (\d+)\))?|Status\((\w+)")
"""How pyarrow's texts name an error of S3, and one of Google's. The rest of a text may hold a key."""

_CREDENTIALS = (
    "check the credentials that pyarrow finds, for S3 AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY;"
    " they must be allowed to list, write and delete objects there"
)
_CAUSES = (
    (
        re.compile("NO_SUCH_BUCKET|NOT_FOUND|404"),
        "there is no such bucket",
        "create the bucket, or correct its name",
    ),
    (
        re.compile("NETWORK_CONNECTION|UNAVAILABLE|TIMEOUT|DEADLINE_EXCEEDED"),
        "the object store does not answer",
        "check the network; a server of your own is named by endpoint_override and scheme in the address",
    ),
    (
        re.compile("DENIED|ACCESS_KEY|SIGNATURE|TOKEN|CLIENT|CREDENTIALS|UNAUTHENTICATED|40[13]"),
        "the object store refuses these credentials",
        _CREDENTIALS,
    ),
)


@contextmanager
def store_errors(where: str) -> Iterator[None]:
    """Raise pyarrow's errors as ours, without their texts."""
    try:
        yield
    except OSError as error:
        message, fix = _cause(error)
        raise DatasetError(message, where=where, fix=fix) from None
    except ValueError:
        raise ConfigError(
            f"pyarrow does not understand the address of {where}",
            where="--out",
            fix="correct the options after ?, such as endpoint_override=HOST:PORT, scheme=http and region",
        ) from None


def _cause(error: OSError) -> tuple[str, str]:
    """What went wrong, and what to do."""
    found = _CODE.search(str(error))
    code = " ".join(filter(None, found.groups())) if found else ""
    if not code and re.search("Bucket .* not found", str(error)):
        code = "NO_SUCH_BUCKET"
    for pattern, message, fix in _CAUSES:
        if pattern.search(code):
            return message, fix
    return (
        f"the object store cannot be used: {code or type(error).__name__}",
        "check the bucket, its region and the credentials",
    )


_SCHEMES = ("s3", "gs")
_PROBE = "_camvo_check"
"""An object that the check writes and removes. Readers of tables pass over names that begin with ``_``."""


@dataclass(frozen=True, slots=True)
class _ObjectFolder:
    """A folder in an object store. The environment has the credentials, as pyarrow finds them."""

    address: str = field(repr=False)
    name: str

    @classmethod
    def at(cls, address: str) -> _ObjectFolder:
        """The folder at an address."""
        parts = urlsplit(address)
        if parts.scheme not in _SCHEMES:
            known = " or ".join(f"{scheme}://" for scheme in _SCHEMES)
            raise ConfigError(
                f"{parts.scheme}:// is no object store that CaMVo writes to",
                where="--out",
                fix=f"use {known}, or a folder",
            )
        user, _, bucket = parts.netloc.rpartition("@")
        if user not in {"", "anonymous"}:
            raise ConfigError(
                "credentials do not belong into an address, which others can read",
                where="--out",
                fix="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            )
        if not bucket:
            raise ConfigError("the address has no bucket", where="--out", fix="use s3://bucket/folder/")
        return cls(address, f"{parts.scheme}://{bucket}{parts.path}")

    def prepare(self) -> None:
        """Check that objects can be listed, written and removed.

        Raises:
            ConfigError: the query has an option that pyarrow does not know.
            DatasetError: the bucket is missing, or the store refuses or does not answer.
        """
        self.names()
        with store_errors(self.name):
            self._put(_PROBE, memoryview(b""))
        self.remove([_PROBE])

    def file(self, name: str) -> _WholeObject:
        """An object that is sent when it is complete."""
        return _WholeObject(self, name)

    def names(self) -> list[str]:
        """The names of the objects directly in it."""
        from pyarrow.fs import FileSelector  # noqa: PLC0415 - an extra

        with store_errors(self.name):
            files, path = _opened(self.address)
            found = files.get_file_info(FileSelector(path, allow_not_found=True))
        return [info.base_name for info in found]

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects."""
        with store_errors(self.name):
            files, path = _opened(self.address)
            for name in names:
                files.delete_file(f"{path}/{name}")

    def send(self, name: str, content: memoryview) -> None:
        """Write an object with all its content, or none."""
        with store_errors(f"{self.name.rstrip('/')}/{name}"):
            self._put(name, content)

    def _put(self, name: str, content: memoryview) -> None:
        """Write an object in another thread, where no signal raises.

        pyarrow publishes what was written whenever a stream is closed, even by the end of a ``with`` after an
        error, or when the stream is forgotten. So nothing may raise between opening and closing: an upload
        of pieces begins with the opening, and errors of pieces show at the closing, which then publishes
        nothing.
        """
        files, path = _opened(self.address, at_once=len(content) < _AT_ONCE)

        def write() -> None:
            stream = files.open_output_stream(f"{path}/{name}")
            stream.write(content)
            stream.close()

        with ThreadPoolExecutor(1) as uploading:
            # An executor does not wait for a thread if a signal raises while it starts.
            uploading.submit(lambda: None).result()
            uploading.submit(write).result()  # bounded by pyarrow's own time limits


class _WholeObject:
    """Collects an object in memory, and sends it at the end. After an error it sends nothing."""

    def __init__(self, folder: _ObjectFolder, name: str) -> None:
        self._folder, self._name = folder, name

    def __enter__(self) -> BinaryIO:
        self._content = io.BytesIO()
        return self._content

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._folder.send(self._name, self._content.getbuffer())


_AT_ONCE = 8 * 2**20
"""Objects of fewer bytes are sent to S3 in one request, so that a killed process leaves no pieces behind.

pyarrow would send more than 10 MB in pieces nevertheless, and publish what it has if it could not begin.
"""

_PATIENCE = 60
"""Seconds until Google's store is given up; pyarrow would try for a quarter of an hour."""


def _opened(address: str, *, at_once: bool = False) -> tuple[Any, str]:
    """The object store, and the folder's path in it."""
    pyarrow_parquet()
    from pyarrow.fs import FileSystem  # noqa: PLC0415 - an extra

    parts = urlsplit(address)
    options = dict(parse_qsl(parts.query))
    if parts.scheme == "s3":
        options["allow_delayed_open"] = str(at_once).lower()
    else:
        options.setdefault("retry_limit_seconds", str(_PATIENCE))
    files, path = FileSystem.from_uri(parts._replace(query=urlencode(options)).geturl())
    return files, path.rstrip("/")


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
    return _ObjectFolder.at(out) if "://" in out else _LocalFolder(Path(out).resolve())


@dataclass(frozen=True, slots=True)
class _LocalFolder:
    """A folder of this host. Other hosts must see it under the same path."""

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

    def file(self, name: str) -> AbstractContextManager[BinaryIO]:
        """A file that is written beside its place and moved there at the end."""
        return whole_file(self.path / name)

    def names(self) -> list[str]:
        """The names of the files in it."""
        return [path.name for path in self.path.iterdir()]

    def remove(self, names: Iterable[str]) -> None:
        """Remove files."""
        for name in names:
            (self.path / name).unlink(missing_ok=True)
