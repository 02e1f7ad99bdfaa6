"""JSON Lines, and Label Studio's import format."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Protocol, TypeAlias

from backend.datasets.sources import pyarrow_parquet
from backend.datasets.tasks import Columns
from backend.errors import DatasetError

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


class _Sink(Protocol):
    """A file that results are written to, one by one. A context manager: an error leaves no file."""

    def __enter__(self) -> _Sink:
        """Open the file."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file, and put it in its place if there was no error."""

    def write(self, result: Result) -> None:
        """Write one result."""


def cell(value: object) -> str:
    """A value as one cell of text: objects and lists as JSON, nothing as an empty cell."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case dict() | list():
            return json.dumps(value, ensure_ascii=False, default=str)
        case _:
            return str(value)


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


class _CsvSink:
    """A CSV file in UTF-8; objects and lists are cells of JSON."""

    def __init__(self, path: Path, columns: Sequence[str], added: Kinds) -> None:
        self._whole, self._names = WholeFile(path), list(dict.fromkeys([*columns, *added]))

    def __enter__(self) -> _CsvSink:
        self._text = io.TextIOWrapper(self._whole.__enter__(), "utf-8", errors="replace", newline="")
        self._writer = csv.DictWriter(self._text, self._names, restval="")
        self._writer.writeheader()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._text.flush()
        self._whole.__exit__(kind, error, trace)

    def write(self, result: Result) -> None:
        """Write one line."""
        self._writer.writerow({name: cell(value) for name, value in result.row.items()})


class _JsonLinesSink:
    """One JSON object per line: the row's columns and those that CaMVo adds."""

    def __init__(self, path: Path) -> None:
        self._whole = WholeFile(path)

    def __enter__(self) -> _JsonLinesSink:
        self._file = self._whole.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._whole.__exit__(kind, error, trace)

    def write(self, result: Result) -> None:
        """Write one line."""
        self._file.write(_json(result.row) + b"\n")


class _LabelStudioSink:
    """An array of tasks with predictions, as Label Studio imports it."""

    def __init__(self, path: Path) -> None:
        self._whole = WholeFile(path)

    def __enter__(self) -> _LabelStudioSink:
        self._file = self._whole.__enter__()
        self._before = b"[\n"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._file.write(b"[]\n" if self._before == b"[\n" else b"\n]\n")
        self._whole.__exit__(kind, error, trace)

    def write(self, result: Result) -> None:
        """Write one task; its data are the row's columns, and the keys that the label config reads."""
        task = {"data": {**result.data, **result.content}, "predictions": list(result.predictions)}
        self._file.write(self._before + _json(task))
        self._before = b",\n"


def _json(value: object) -> bytes:
    # Lone surrogates, which JSON allows, have no UTF-8; they are written as escapes.
    text = json.dumps(value, ensure_ascii=False, default=str)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, default=str).encode()


_ROWS = 5_000
"""Rows in one row group."""

_KINDS = {bool: "bool_", int: "int64", float: "float64", str: "string"}


class ParquetSink:
    """A Parquet file. Columns of numbers, booleans and text keep their type; any others are text, as in CSV.

    Args:
        file: the file to write, such as a ``WholeFile``; entered and left with the sink.
        columns: the columns of the source with their types.
        added: those that CaMVo adds, with theirs.
    """

    def __init__(self, file: AbstractContextManager[BinaryIO], columns: Columns, added: Kinds) -> None:
        self._parquet = pyarrow_parquet()
        self._whole = file
        self._waiting: list[dict[str, Any]] = []
        self._writer: Any = None
        self._kinds = {name: columns.kind(name) or str for name in columns.names} | dict(added)

    def __enter__(self) -> ParquetSink:
        self._file = self._whole.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._flush()
            if self._writer is not None:
                self._writer.close()
        except BaseException as broken:
            self._whole.__exit__(type(broken), broken, broken.__traceback__)
            raise
        self._whole.__exit__(kind, error, trace)

    def write(self, result: Result) -> None:
        """Write one row, together with others."""
        self._waiting.append(result.row)
        if len(self._waiting) == _ROWS:
            self._flush()

    def _flush(self) -> None:
        import pyarrow  # noqa: PLC0415 - an extra

        schema = pyarrow.schema(
            [(name, getattr(pyarrow, _KINDS.get(kind, "string"))()) for name, kind in self._kinds.items()]
        )
        if self._writer is None:
            self._writer = self._parquet.ParquetWriter(self._file, schema, compression="zstd")
        rows = [
            {name: typed(row.get(name), kind) for name, kind in self._kinds.items()} for row in self._waiting
        ]
        self._writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
        self._waiting = []


def typed(value: Any, kind: type) -> object:
    """A value as one of a column's type; what is no number and no boolean is text, as in CSV."""
    if value is None:
        return None
    return kind(value) if kind in {bool, int, float} else cell(value)


_ENDINGS = (".jsonl", ".ndjson", ".csv", ".parquet", ".json")


def check_sink(path: Path) -> None:
    """Check that results can be written to a file, before anything is spent.

    Raises:
        DatasetError: its ending names no format, or it cannot be written.
    """
    if path.suffix.lower() not in _ENDINGS:
        raise DatasetError(
            f"the ending {path.suffix!r} names no format", where=str(path), fix=f"use {', '.join(_ENDINGS)}"
        )
    if path.suffix.lower() == ".parquet":
        pyarrow_parquet()
    check_writable(path)


def open_sink(path: Path, columns: Columns, added: Kinds) -> _Sink:
    """The sink that writes a file; ``.json`` is Label Studio's import format.

    Args:
        path: the file; :func:`check_sink` has accepted it.
        columns: the columns of the source.
        added: those that CaMVo adds.
    """
    match path.suffix.lower():
        case ".csv":
            return _CsvSink(path, columns.names, added)
        case ".parquet":
            return ParquetSink(WholeFile(path), columns, added)
        case ".json":
            return _LabelStudioSink(path)
        case _:
            return _JsonLinesSink(path)
