"""Label Studio's JSON: an array of tasks, as it is imported and exported."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import ijson

from backend.errors import DatasetError


def pyarrow_parquet() -> Any:
    """The module ``pyarrow.parquet``.

    Raises:
        DatasetError: pyarrow is not installed.
    """
    try:
        import pyarrow.parquet  # noqa: PLC0415 - an extra
    except ImportError:
        raise DatasetError(
            "Parquet needs pyarrow", where="[parquet]", fix="pip install 'camvo[parquet]'"
        ) from None
    return pyarrow.parquet


@contextmanager
def _reading(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading bytes."""
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise DatasetError(
            f"cannot be read: {error.strerror or type(error).__name__}",
            where=str(path),
            fix="check the path and the rights",
        ) from error


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a source.

    Attributes:
        place: its position in the source, such as ``line 7``, for errors.
        data: the row's values by column.
        id: the id that the format itself gives, such as a Label Studio task's; ``None`` if it gives none.
    """

    place: str
    data: Mapping[str, Any]
    id: str | None = None


class Source(Protocol):
    """A file of rows that can be read more than once."""

    @property
    def path(self) -> Path:
        """The file."""

    def rows(self) -> Iterator[Row]:
        """Read the rows in the file's order, a few at a time.

        Raises:
            DatasetError: the file cannot be read, or a row is not in the format.
        """


_LONGEST = 1 << 27
"""The longest cell in characters; Python's own limit is 131,072."""


@dataclass(frozen=True, slots=True)
class _CsvRows:
    """A CSV file in UTF-8, with a header. The separator is a comma, a semicolon or a tab."""

    path: Path

    def rows(self) -> Iterator[Row]:
        """Read the rows; a row's place is the line on which it begins."""
        csv.field_size_limit(_LONGEST)
        with _reading(self.path) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
            began = 1
            try:
                reader = csv.reader(text, delimiter=_separator(text), strict=True)
                header = self._header(next(reader, []))
                began = reader.line_num + 1
                for cells in reader:
                    if cells:
                        yield self._row(header, cells, f"line {began}")
                    began = reader.line_num + 1
            except UnicodeDecodeError:
                raise self._mistake("is not UTF-8", began, "save the file as UTF-8") from None
            except csv.Error as error:
                raise self._mistake(f"is not CSV: {error}", began, "quote cells that hold quotes") from None

    def _header(self, names: list[str]) -> list[str]:
        if not names or not all(name.strip() for name in names):
            raise self._mistake("has no header with a name for each column", 1, "name the columns in line 1")
        repeated = next((name for position, name in enumerate(names) if name in names[:position]), None)
        if repeated is not None:
            raise self._mistake(f"has two columns {repeated!r}", 1, "give each column a name of its own")
        return names

    def _row(self, header: list[str], cells: list[str], place: str) -> Row:
        if len(cells) != len(header):
            raise DatasetError(
                f"has {len(cells)} cells under {len(header)} columns",
                where=f"{self.path}, {place}",
                fix="put quotes around cells that hold the separator",
            )
        return Row(place, dict(zip(header, cells, strict=True)))

    def _mistake(self, message: str, line: int, fix: str) -> DatasetError:
        return DatasetError(message, where=f"{self.path}, line {line}", fix=fix)


def _separator(text: io.TextIOWrapper) -> str:
    """The separator that the header uses most, outside quotes; the file is rewound."""
    header = text.readline()
    text.seek(0)
    outside = "".join(header.split('"')[::2])
    return max(",;\t", key=outside.count)


@dataclass(frozen=True, slots=True)
class _JsonTasks:
    """An array of tasks, each with ``data`` and perhaps ``id``, or of plain objects."""

    path: Path

    def rows(self) -> Iterator[Row]:
        """Read the tasks one by one; the array is never in memory as a whole."""
        place = "the first task"
        with _reading(self.path) as file:
            if file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"[":
                raise DatasetError(
                    "is not a JSON array",
                    where=str(self.path),
                    fix="write [task, …], or name the file *.jsonl",
                )
            file.seek(3 if file.seek(0) == 0 and file.read(3) == b"\xef\xbb\xbf" else 0)
            try:
                for number, value in enumerate(ijson.items(file, "item", use_float=True), start=1):
                    place = f"task {number}"
                    yield _task_row(value, place, self.path)
                    place = f"task {number + 1}"
            except ijson.JSONError:
                raise DatasetError(
                    "is not JSON", where=f"{self.path}, {place}", fix="export the tasks again"
                ) from None


def _task_row(value: object, place: str, path: Path) -> Row:
    """Make a row of a JSON object: a task of Label Studio, or a plain row."""
    if not isinstance(value, Mapping):
        raise DatasetError("is not a JSON object", where=f"{path}, {place}", fix='write {"column": value, …}')
    data = value.get("data")
    if not isinstance(data, Mapping):
        return Row(place, value)
    number = value.get("id")
    return Row(place, data, None if number is None else str(number))


@dataclass(frozen=True, slots=True)
class _JsonLines:
    """A file with one object per line: plain rows, or Label Studio's tasks. Blank lines are skipped."""

    path: Path

    def rows(self) -> Iterator[Row]:
        """Read the objects."""
        with _reading(self.path) as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield self._row(line, f"line {number}")

    def _row(self, line: bytes, place: str) -> Row:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            raise DatasetError(
                "is not JSON", where=f"{self.path}, {place}", fix="write one JSON object per line"
            ) from None
        return _task_row(value, place, self.path)


_ROWS = 1000
"""Rows converted at once."""


@dataclass(frozen=True, slots=True)
class ParquetRows:
    """A Parquet file. Only some rows are in memory at a time, beside what one row group needs."""

    path: Path

    def rows(self) -> Iterator[Row]:
        """Read the rows; a row's place is its number, counted from 1."""
        return self.rows_from(0)

    def rows_from(self, start: int) -> Iterator[Row]:
        """Read the rows from number ``start``, counted from 0. Row groups before it are not read."""
        parquet = pyarrow_parquet()
        with _reading(self.path) as file:
            try:
                # Buffered columns are freed while a group is read; pre-buffering would keep all of it.
                with parquet.ParquetFile(file, pre_buffer=False, buffer_size=1 << 16) as table:
                    groups, number = _groups_from(table.metadata, start)
                    for batch in table.iter_batches(_ROWS, row_groups=groups, use_threads=False):
                        skipped = min(max(start - number, 0), batch.num_rows)
                        for position, values in enumerate(
                            batch.slice(skipped).to_pylist(), number + skipped + 1
                        ):
                            yield Row(f"row {position}", values)
                        number += batch.num_rows
            except (ValueError, OSError) as error:  # pyarrow's errors are subclasses of these
                raise DatasetError(
                    "is not Parquet", where=str(self.path), fix="write the file again"
                ) from error


def _groups_from(metadata: Any, start: int) -> tuple[list[int], int]:
    """The row groups from the one that holds row ``start``, and the number of the first of their rows."""
    before = 0
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group).num_rows
        if before + rows > start:
            return list(range(group, metadata.num_row_groups)), before
        before += rows
    return [], before


_FORMATS: Mapping[str, Callable[[Path], Source]] = {
    ".csv": _CsvRows,
    ".tsv": _CsvRows,
    ".jsonl": _JsonLines,
    ".ndjson": _JsonLines,
    ".json": _JsonTasks,
    ".parquet": ParquetRows,
}


def open_source(path: Path) -> Source:
    """The source that reads a file.

    Raises:
        DatasetError: there is no such file, or its ending names no format.
    """
    if not path.is_file():
        raise DatasetError("there is no such file", where=str(path), fix="check the path")
    try:
        return _FORMATS[path.suffix.lower()](path)
    except KeyError:
        raise DatasetError(
            f"the ending {path.suffix!r} names no format",
            where=str(path),
            fix=f"use one of {', '.join(_FORMATS)}",
        ) from None
