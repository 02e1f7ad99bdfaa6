"""Label Studio's JSON: an array of tasks, as it is imported and exported."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import ijson

from backend.datasets.csv_tables import CsvError, CsvRecord, csv_records, foreign_format, wrong_byte
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
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> DatasetError:
    return DatasetError(
        f"cannot be read: {error.strerror or type(error).__name__}",
        where=str(path),
        fix="check the path and the rights",
    )


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


@dataclass(frozen=True, slots=True)
class _CsvRows:
    """A CSV or TSV file with a header."""

    path: Path

    def rows(self) -> Iterator[Row]:
        """Read the rows; a row's place is the line on which it begins."""
        try:
            records = csv_records(self.path)
            header = self._header(next(records, CsvRecord(1, [])))
            for record in records:
                cells = dict(zip(header, record.cells, strict=True))
                yield Row(f"line {record.line}", {name: cell for name, cell in cells.items() if name})
        except CsvError as error:
            raise self._mistake(error.message, error.line, error.fix) from None
        except OSError as error:
            raise _unreadable(self.path, error) from error

    def _header(self, record: CsvRecord) -> list[str]:
        """The columns' names; one without a name, as pandas writes its index, is called by its position."""
        if not any(name.strip() for name in record.cells):
            raise self._mistake("has no header", record.line, "name the columns in the first line")
        last = max(position for position, name in enumerate(record.cells) if name.strip())
        names = [
            name if name.strip() else f"column {position + 1}" if position < last else ""
            for position, name in enumerate(record.cells)
        ]
        repeated = next(
            (name for position, name in enumerate(names) if name and name in names[:position]), None
        )
        if repeated is not None:
            raise self._mistake(
                f"has two columns {repeated!r}", record.line, "give each column a name of its own"
            )
        return names

    def _mistake(self, message: str, line: int, fix: str) -> DatasetError:
        return DatasetError(message, where=f"{self.path}, line {line}", fix=fix)


@dataclass(frozen=True, slots=True)
class _JsonTasks:
    """An array of tasks, each with ``data`` and perhaps ``id``, or of plain objects."""

    path: Path

    def rows(self) -> Iterator[Row]:
        """Read the tasks one by one; the array is never in memory as a whole."""
        place = "the first task"
        with _reading(self.path) as file:
            if file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"[":
                raise _not_text(self.path) or DatasetError(
                    "is not a JSON array",
                    where=str(self.path),
                    fix="write [task, …], or name the file *.jsonl",
                )
            file.seek(3 if file.seek(0) == 0 and file.read(3) == b"\xef\xbb\xbf" else 0)
            try:
                # With floats, ijson refuses integers beyond 64 bits, such as ids of 20 digits.
                for number, value in enumerate(ijson.items(file, "item"), start=1):
                    place = f"task {number}"
                    yield _task_row(_without_decimals(value), place, self.path)
                    place = f"task {number + 1}"
            except ijson.JSONError:
                raise _not_text(self.path) or DatasetError(
                    "is not JSON",
                    where=f"{self.path}, {place}",
                    fix="export the tasks again; NaN and Infinity are no JSON, null is",
                ) from None


def _without_decimals(value: Any) -> Any:
    """A value of JSON with floats in place of decimals."""
    match value:
        case Decimal():
            return float(value)
        case dict():
            return {key: _without_decimals(each) for key, each in value.items()}
        case list():
            return [_without_decimals(each) for each in value]
        case _:
            return value


def _not_text(path: Path) -> DatasetError | None:
    """The error about a file that is no UTF-8 text; ``None`` if it is."""
    if (foreign := foreign_format(path)) is not None:
        return DatasetError(foreign[0], where=str(path), fix=foreign[1])
    if (wrong := wrong_byte(path)) is not None:
        return DatasetError(wrong.message, where=f"{path}, line {wrong.line}", fix=wrong.fix)
    return None


def _task_row(value: object, place: str, path: Path) -> Row:
    """Make a row of a JSON object: a task of Label Studio, or a plain row."""
    if not isinstance(value, Mapping):
        fix = "name the file *.json" if isinstance(value, list) else 'write {"column": value, …}'
        raise DatasetError("is not a JSON object", where=f"{path}, {place}", fix=fix)
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
            raise _not_text(self.path) or DatasetError(
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
                            yield Row(f"row {position}", {name: _decoded(values[name]) for name in values})
                        number += batch.num_rows
            except (ValueError, OSError) as error:  # pyarrow's errors are subclasses of these
                raise DatasetError(
                    "is not Parquet", where=str(self.path), fix="write the file again"
                ) from error


def _decoded(value: Any) -> Any:
    """Bytes as text if they are UTF-8: many writers mark no column as text."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


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
            fix=f"use one of {', '.join(_FORMATS)}; Excel saves a sheet as CSV UTF-8",
        ) from None
