"""A folder in an object store, such as S3 or MinIO: files are objects whose names have one beginning."""

from __future__ import annotations

import io
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, BinaryIO
from urllib.parse import parse_qsl, urlencode, urlsplit

from backend.datasets.optional import pyarrow_parquet
from backend.datasets.sinks.object_errors import told
from backend.errors import ConfigError

SCHEMES = ("s3", "gs")
_PROBE = "_camvo_check"
"""An object that the check writes and removes. Readers of tables pass over names that begin with ``_``."""


@dataclass(frozen=True, slots=True)
class ObjectFolder:
    """A folder in an object store. The environment has the credentials, as pyarrow finds them.

    Attributes:
        address: its address with options in the query, as pyarrow takes it.
        name: the same for people, without the query.
    """

    address: str = field(repr=False)
    name: str

    @classmethod
    def at(cls, address: str) -> ObjectFolder:
        """The folder at an address.

        Raises:
            ConfigError: the scheme is none of those known, or the address has credentials in it.
        """
        parts = urlsplit(address)
        if parts.scheme not in SCHEMES:
            known = " or ".join(f"{scheme}://" for scheme in SCHEMES)
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
        with told(self.name):
            self._put(_PROBE, memoryview(b""))
        self.remove([_PROBE])

    def file(self, name: str) -> WholeObject:
        """An object that is sent when it is complete."""
        return WholeObject(self, name)

    def names(self) -> list[str]:
        """The names of the objects directly in it."""
        from pyarrow.fs import FileSelector  # noqa: PLC0415 - an extra

        with told(self.name):
            files, path = _opened(self.address)
            found = files.get_file_info(FileSelector(path, allow_not_found=True))
        return [info.base_name for info in found]

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects."""
        with told(self.name):
            files, path = _opened(self.address)
            for name in names:
                files.delete_file(f"{path}/{name}")

    def send(self, name: str, content: memoryview) -> None:
        """Write an object with all its content, or none.

        Raises:
            DatasetError: the store refuses or does not answer.
        """
        with told(f"{self.name.rstrip('/')}/{name}"):
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
            uploading.submit(write).result()


class WholeObject:
    """Collects an object in memory, and sends it at the end. After an error it sends nothing.

    Raises:
        DatasetError: at the end, it cannot be sent.
    """

    def __init__(self, folder: ObjectFolder, name: str) -> None:
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
    """The object store, and the folder's path in it.

    Args:
        address: the folder's address.
        at_once: whether objects are sent in one request.
    """
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
