"""Files of results: CSV, JSON Lines, Parquet, and Label Studio's import format."""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from backend.datasets.sources import pyarrow_parquet
from backend.datasets.tasks import Columns
from backend.errors import DatasetError, DiskFullError

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


Write: TypeAlias = Callable[[Result], object]
"""Writes one result to a file."""


def _cell(value: object) -> str:
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
    with contextlib.suppress(_Unwanted), whole_file(path):
        raise _Unwanted


class _Unwanted(Exception):  # noqa: N818 - no error
    """Ends the writing of a file that is not wanted."""


@contextmanager
def _csv_sink(
    file: BinaryIO, columns: Columns, added: Kinds, cell: Callable[[object], str] = _cell
) -> Iterator[Write]:
    """CSV in UTF-8; objects and lists are cells of JSON."""
    text = io.TextIOWrapper(file, "utf-8", errors="replace", newline="")
    names = list(dict.fromkeys([*columns.names, *added]))
    writer = csv.writer(text)
    writer.writerow(map(cell, names))
    yield lambda result: writer.writerow([cell(result.row.get(name)) for name in names])
    text.flush()


@contextmanager
def _json_lines_sink(file: BinaryIO, columns: Columns, added: Kinds) -> Iterator[Write]:
    """One JSON object per line: the row's columns and those that CaMVo adds."""
    yield lambda result: file.write(_json(result.row) + b"\n")


@contextmanager
def _label_studio_sink(file: BinaryIO, columns: Columns, added: Kinds) -> Iterator[Write]:
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
    text = json.dumps(value, ensure_ascii=False, default=str)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, default=str).encode()


_ROWS = 5_000
"""Rows in one row group."""

_KINDS = {bool: "bool_", int: "int64", float: "float64", str: "string"}


@contextmanager
def parquet_sink(file: BinaryIO, columns: Columns, added: Kinds) -> Iterator[Write]:
    """Parquet. Columns of numbers, booleans and text keep their type; any others are text, as in CSV.

    Args:
        file: the file to write.
        columns: the columns of the source with their types.
        added: those that CaMVo adds, with theirs.
    """
    parquet = pyarrow_parquet()
    import pyarrow  # noqa: PLC0415 - an extra

    kinds = {name: columns.kind(name) or str for name in columns.names} | dict(added)
    schema = pyarrow.schema(
        [(name, getattr(pyarrow, _KINDS.get(kind, "string"))()) for name, kind in kinds.items()]
    )
    waiting: list[dict[str, Any]] = []

    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:

        def flush() -> None:
            rows = [{name: typed(row.get(name), kind) for name, kind in kinds.items()} for row in waiting]
            writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
            waiting.clear()

        def write(result: Result) -> None:
            waiting.append(result.row)
            if len(waiting) == _ROWS:
                flush()

        yield write
        flush()


def typed(value: Any, kind: type) -> object:
    """A value as one of a column's type; what is no number and no boolean is text, as in CSV."""
    if value is None:
        return None
    return kind(value) if kind in {bool, int, float} else _cell(value)


_ENDINGS = (".jsonl", ".ndjson", ".csv", ".parquet", ".json")


def check_sink(path: Path, *, for_spreadsheet: bool = False) -> None:
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
) -> Iterator[Write]:
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
