"""Files of results: CSV, JSON Lines, Parquet, and Label Studio's import format."""

from __future__ import annotations

import base64
import contextlib
import csv
import errno
import io
import json
import math
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit

from backend.datasets.sources import pyarrow_parquet
from backend.datasets.tasks import Columns
from backend.errors import ConfigError, DatasetError, DiskFullError

PREFIX = "camvo_"
"""Begins the name of each column that is added to those of the source."""

Kinds: TypeAlias = Mapping[str, type]
"""The columns that are added, in their order: name → ``bool``, ``int``, ``float`` or ``str``."""


@dataclass(frozen=True, slots=True)
class Result:
    """A row of the source with what CaMVo says about it.

    Attributes:
        data: the row's own columns.
        added: the values of the columns that CaMVo adds, by name; the same names for every row.
        content: the task's data as the label config reads it.
        predictions: the predictions in Label Studio's form.
    """

    data: Mapping[str, Any]
    added: Mapping[str, Any]
    content: Mapping[str, Any]
    predictions: Sequence[Mapping[str, Any]]

    @property
    def row(self) -> dict[str, Any]:
        """All columns; an added one replaces one of the source with its name."""
        return {**self.data, **self.added}


_Write: TypeAlias = Callable[[Result], object]
"""Writes one result to a file."""


def _cell(value: object) -> str:
    """A value as one cell of text: objects and lists as JSON, nothing as an empty cell.

    Lone surrogates, which JSON allows and UTF-8 does not, become question marks.
    """
    match value:
        case None:
            text = ""
        case bool():
            text = str(value).lower()
        case dict() | list():
            text = _dumped(value)
        case _:
            text = _words(value)
    return text.encode(errors="replace").decode()


def _dumped(value: object, *, ascii_alone: bool = False) -> str:
    """A value as JSON, in which missing numbers are ``null``: JSON has no NaN and no infinity."""
    try:
        return json.dumps(value, ensure_ascii=ascii_alone, default=_words, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=ascii_alone, default=_words)


def _finite(value: object) -> object:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: _finite(each) for key, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
        case _:
            return value


def _words(value: object) -> str:
    """A value that JSON lacks; bytes are read as UTF-8, and others are in Base64, as elsewhere in JSON."""
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()


_FORMULA = re.compile("'*[=+@\t\r\n\uff1d\uff0b\uff0d\uff20-]")
"""Begins a text that a spreadsheet computes, or one that :func:`spreadsheet_cell` has marked; a Japanese one
takes full-width characters, too."""


def spreadsheet_cell(value: object) -> str:
    """A value as a cell of a file that people edit in a spreadsheet: no text of a task is run as a formula.

    >>> spreadsheet_cell("=1+1"), spreadsheet_cell(-1.5)
    ("'=1+1", '-1.5')
    """
    text = _cell(value)
    return f"'{text}" if isinstance(value, str) and _FORMULA.match(text) else text


def spreadsheet_text(text: object) -> object:
    """Inverse of :func:`spreadsheet_cell` for texts; anything else stays as it is."""
    if isinstance(text, str) and text.startswith("'") and _FORMULA.match(text):
        return text[1:]
    return text


_FULL = {errno.ENOSPC, errno.EDQUOT}


def unwritable(error: OSError, path: Path) -> DatasetError:
    """The error to raise if a file cannot be written."""
    if error.errno in _FULL:
        return DiskFullError(
            "the disk is full",
            where=str(path),
            fix="make room, and run the same command again: nothing is paid twice",
        )
    return DatasetError(
        f"cannot be written: {error.strerror or type(error).__name__}",
        where=str(path),
        fix="choose another folder, and run the same command again: nothing is paid twice",
    )


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Write beside the wanted path, and move the file there at the end.

    So an interrupted run leaves the file of the run before as it was. A new file may hold texts, so only its
    owner may read it; one that takes the place of another has the other's mode.

    Raises:
        DatasetError: on entering, the folder cannot be written to; or the disk is full.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        file = open(beside, "wb", opener=partial(os.open, mode=0o600))  # noqa: SIM115 - below
    except OSError as error:
        raise unwritable(error, path) from error
    try:
        with file:
            os.fchmod(file.fileno(), _mode_of(path))
            yield file
        beside.replace(path)
    except OSError as error:
        if error.errno in _FULL:
            raise unwritable(error, path) from error
        raise
    finally:
        beside.unlink(missing_ok=True)


def _mode_of(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0o600


def check_writable(path: Path) -> None:
    """Check that a file can be written, before anything is spent.

    Raises:
        DatasetError: it cannot.
    """
    if path.is_dir():
        raise DatasetError("is a folder", where=str(path), fix="name a file in it")
    with contextlib.suppress(_Unwanted), whole_file(path):
        raise _Unwanted


class _Unwanted(Exception):  # noqa: N818 - no error
    """Ends the writing of a file that is not wanted."""


@contextmanager
def _csv_sink(
    file: BinaryIO, columns: Columns, added: Kinds, cell: Callable[[object], str] = _cell
) -> Iterator[_Write]:
    """CSV in UTF-8; objects and lists are cells of JSON."""
    text = io.TextIOWrapper(file, "utf-8", newline="")
    names = list(dict.fromkeys([*columns.names, *added]))
    writer = csv.writer(text)
    writer.writerow(map(cell, names))
    yield lambda result: writer.writerow([cell(result.row.get(name)) for name in names])
    text.flush()


@contextmanager
def _json_lines_sink(file: BinaryIO, columns: Columns, added: Kinds) -> Iterator[_Write]:
    """One JSON object per line: the row's columns and those that CaMVo adds."""
    yield lambda result: file.write(_json(result.row) + b"\n")


@contextmanager
def _label_studio_sink(file: BinaryIO, columns: Columns, added: Kinds) -> Iterator[_Write]:
    """An array of tasks with predictions, as Label Studio imports it.

    The data of a task are the row's columns, and the keys that the label config reads.
    """
    before = b"[\n"

    def write(result: Result) -> None:
        nonlocal before
        task = {"data": {**result.data, **result.content}, "predictions": list(result.predictions)}
        file.write(before + _json(task))
        before = b",\n"

    yield write
    file.write(b"[]\n" if before == b"[\n" else b"\n]\n")


def _json(value: object) -> bytes:
    # Lone surrogates, which JSON allows, have no UTF-8; they are written as escapes.
    try:
        return _dumped(value).encode()
    except UnicodeEncodeError:
        return _dumped(value, ascii_alone=True).encode()


_ROWS = 5_000
"""Rows in one row group."""

_KINDS = {bool: "bool_", int: "int64", float: "float64", str: "string"}


@contextmanager
def parquet_sink(file: BinaryIO, columns: Columns, added: Kinds) -> Iterator[_Write]:
    """Parquet. Columns of Parquet, and any of numbers, booleans and text, keep their type; others are text.

    Args:
        file: the file to write.
        columns: the columns of the source with their types.
        added: those that CaMVo adds, with theirs.
    """
    parquet = pyarrow_parquet()
    import pyarrow  # noqa: PLC0415 - an extra

    kinds = {name: columns.kind(name) or str for name in columns.names} | dict(added)
    kept = {
        name: of_column
        for name, of_column in columns.of_parquet.items()
        if name not in added and _is_plain(of_column)
    }
    types = {name: getattr(pyarrow, _KINDS.get(kind, "string"))() for name, kind in kinds.items()}
    schema = pyarrow.schema([*(types | kept).items()])
    waiting: list[dict[str, Any]] = []

    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:

        def flush() -> None:
            rows = [
                {
                    name: row.get(name) if name in kept else typed(row.get(name), kind)
                    for name, kind in kinds.items()
                }
                for row in waiting
            ]
            writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
            waiting.clear()

        def write(result: Result) -> None:
            waiting.append(result.row)
            if len(waiting) == _ROWS:
                flush()

        yield write
        flush()


def _is_plain(of_column: Any) -> bool:
    """Whether pyarrow makes a type's values of what it reads them as; not so for every extension of types."""
    from pyarrow import BaseExtensionType  # noqa: PLC0415 - an extra

    if isinstance(of_column, BaseExtensionType):
        return False
    return all(_is_plain(of_column.field(position).type) for position in range(of_column.num_fields))


def typed(value: Any, kind: type) -> object:
    """A value as one of a column's type; what is no number and no boolean is text, as in CSV."""
    if value is None:
        return None
    return kind(value) if kind in {bool, int, float} else _cell(value)


_ENDINGS = (".jsonl", ".ndjson", ".csv", ".parquet", ".json")


def check_sink(path: Path, *, for_spreadsheet: bool) -> None:
    """Check that results can be written to a file, before anything is spent.

    Raises:
        DatasetError: its ending names no format, or not CSV for a spreadsheet; or it cannot be written.
    """
    if for_spreadsheet and path.suffix.lower() != ".csv":
        raise DatasetError(
            "is for CSV", where="--spreadsheet", fix=f"leave it out, or name {path.with_suffix('.csv').name}"
        )
    if path.suffix.lower() not in _ENDINGS:
        raise DatasetError(
            f"the ending {path.suffix!r} names no format", where=str(path), fix=f"use {', '.join(_ENDINGS)}"
        )
    if path.suffix.lower() == ".parquet":
        pyarrow_parquet()
    check_writable(path)


@contextmanager
def open_sink(
    path: Path, columns: Columns, added: Kinds, *, for_spreadsheet: bool = False
) -> Iterator[_Write]:
    """Open a file for results; an error leaves no file. ``.json`` is Label Studio's import format.

    Args:
        path: the file; :func:`check_sink` has accepted it.
        columns: the columns of the source.
        added: those that CaMVo adds.
        for_spreadsheet: whether the cells of CSV are those of :func:`spreadsheet_cell`.
    """
    csv_sink = partial(_csv_sink, cell=spreadsheet_cell if for_spreadsheet else _cell)
    sinks: dict[str, Any] = {".csv": csv_sink, ".parquet": parquet_sink, ".json": _label_studio_sink}
    sink = sinks.get(path.suffix.lower(), _json_lines_sink)
    with whole_file(path) as file, sink(file, columns, added) as write:
        yield write


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
def _store_errors(where: str) -> Iterator[None]:
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
        self.names()
        with _store_errors(self.name):
            self._put(_PROBE, memoryview(b""))
        self.remove([_PROBE])

    @contextmanager
    def file(self, name: str) -> Iterator[BinaryIO]:
        """An object that is collected in memory, and sent at the end; after an error nothing is sent."""
        content = io.BytesIO()
        yield content
        with _store_errors(f"{self.name.rstrip('/')}/{name}"):
            self._put(name, content.getbuffer())

    def names(self) -> list[str]:
        from pyarrow.fs import FileSelector  # noqa: PLC0415 - an extra

        with _store_errors(self.name):
            files, path = _opened(self.address)
            found = files.get_file_info(FileSelector(path, allow_not_found=True))
        return [info.base_name for info in found]

    def remove(self, names: Iterable[str]) -> None:
        with _store_errors(self.name):
            files, path = _opened(self.address)
            for name in names:
                files.delete_file(f"{path}/{name}")

    def _put(self, name: str, content: memoryview) -> None:
        """Write an object with all its content, or none, in another thread, where no signal raises.

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


@dataclass(frozen=True, slots=True)
class _LocalFolder:
    """A folder of this host. Other hosts must see it under the same path."""

    path: Path

    @property
    def name(self) -> str:
        """Its name for people, without a secret."""
        return str(self.path)

    def prepare(self) -> None:
        """Make the folder, and check that files can be written there, before anything is spent.

        Raises:
            ConfigError: it can be no folder.
            DatasetError: nothing can be written there.
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
        """A file to write. It appears under its name when it is complete, and never if its writing fails.

        Raises:
            DatasetError: on entering or at the end, it cannot be written.
        """
        return whole_file(self.path / name)

    def names(self) -> list[str]:
        """The names of the files in it."""
        return [path.name for path in self.path.iterdir()]

    def remove(self, names: Iterable[str]) -> None:
        """Remove files."""
        for name in names:
            (self.path / name).unlink(missing_ok=True)


PartsFolder: TypeAlias = _LocalFolder | _ObjectFolder
"""A folder to which several processes write files. It can be sent to other hosts."""


def parts_folder(out: str) -> PartsFolder:
    """The folder that ``--out`` names.

    Args:
        out: a path, or the address of a folder in an object store, such as ``s3://bucket/labels/``.

    Raises:
        ConfigError: the address has a scheme that is not known, or a secret in it.
    """
    return _ObjectFolder.at(out) if "://" in out else _LocalFolder(Path(out).resolve())
