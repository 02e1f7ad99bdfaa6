"""Files of rows: tables as CSV, JSON Lines, Parquet, and Label Studio's JSON, an array of tasks.

A quote that somebody typed as a character can join rows into one cell without any error of syntax. Such
a table is read without quoting if it is separated by tabs, and refused with its line otherwise.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import ijson

from backend.errors import DatasetError

_LONGEST: Final = 1 << 27
"""The longest cell in characters; Python's own limit is 131,072."""

_SEPARATOR_LINE: Final = re.compile(r'\ufeff*"?sep=(.)"?\s*', re.IGNORECASE)
"""The first line with which Excel names the separator; it is no row."""


class CsvError(Exception):
    """The file is no table.

    Attributes:
        line: the line that is wrong, counted from 1.
        message: what is wrong.
        fix: what to do.
    """

    def __init__(self, line: int, message: str, fix: str) -> None:
        super().__init__(message)
        self.line, self.message, self.fix = line, message, fix


@dataclass(frozen=True, slots=True)
class CsvRecord:
    """One row.

    Attributes:
        line: the line on which it begins, counted from 1.
        cells: its cells.
    """

    line: int
    cells: list[str]


def csv_records(path: Path, separator: str | None = None) -> Iterator[CsvRecord]:
    """Read a table row by row, the header first. Blank rows are skipped.

    All rows have as many cells as the header: blank cells beyond it, as spreadsheets write them, are dropped.

    Args:
        path: the file, in UTF-8, UTF-16 or UTF-32, with or without a byte order mark.
        separator: the character between cells; ``None`` for the one that the file names in a line ``sep=;``,
            else a tab in a ``.tsv`` file, else the comma, semicolon or tab that the header uses most.

    Raises:
        OSError: the file cannot be read.
        CsvError: it is no table.
    """
    csv.field_size_limit(_LONGEST)
    try:
        state = path.stat()
        yield from _records(path, _form(path, separator, (state.st_mtime_ns, state.st_size)))
    except UnicodeDecodeError as error:
        raise _undecodable(path, error) from None


@dataclass(frozen=True, slots=True)
class _Form:
    """How a file is written: its encoding, separator and quoting, and the lines before its header."""

    encoding: str
    separator: str
    before: int = 0
    quoting: int = csv.QUOTE_MINIMAL


@lru_cache(maxsize=16)
def _form(path: Path, separator: str | None, _version: tuple[int, int]) -> _Form:
    """The form of a version of a file: a table with tabs is read through once to find out, not each time."""
    form = _written_form(path, separator)
    if form.separator == "\t" and not _quotes_hold(path, form):
        return replace(form, quoting=csv.QUOTE_NONE)
    return form


_PARQUET: Final = b"PAR1"
"""The first and the last bytes of a Parquet file; the header of a table may begin with them, too."""

_FOREIGN: Final = {
    b"PK\x03\x04": (
        "is a workbook or an archive, not text",
        "save the sheet as CSV UTF-8, or unpack the archive",
    ),
    b"\xd0\xcf\x11\xe0": ("is an Excel workbook, not text", "save the sheet as CSV UTF-8"),
    b"\x1f\x8b": ("is compressed", "unpack it: gunzip"),
    _PARQUET: ("is Parquet", "name the file *.parquet"),
}
"""The first bytes of files that have got the ending of another format: what they are, and what to do."""


def _foreign_format(path: Path) -> tuple[str, str] | None:
    """Return what a file is in place of text, and what to do; ``None`` if its bytes do not say so."""
    with path.open("rb") as file:
        first = file.read(4)
        if first == _PARQUET:
            file.seek(-4, os.SEEK_END)
            first = file.read(4)
    return next((said for mark, said in _FOREIGN.items() if first.startswith(mark)), None)


def _encoding(first: bytes) -> str:
    """The encoding by the first four bytes: a mark, or the NULs beside an ASCII character."""
    if first in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE):  # looked at first: one begins as UTF-16's does
        return "utf-32"
    if first[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    if len(first) == 4 and first.count(0) == 3 and (first[0] or first[3]):
        return "utf-32-be" if first[0] == 0 else "utf-32-le"
    if len(first) >= 2 and (first[0] == 0) != (first[1] == 0):
        return "utf-16-be" if first[0] == 0 else "utf-16-le"
    return "utf-8-sig"


def _written_form(path: Path, separator: str | None) -> _Form:
    """The form by the first bytes and the first line."""
    if (foreign := _foreign_format(path)) is not None:
        raise CsvError(1, *foreign)
    with path.open("rb") as file:
        encoding = _encoding(file.read(4))
    with path.open(encoding=encoding, newline="") as text:
        header = text.readline()
        named = _SEPARATOR_LINE.fullmatch(header)
        if named is not None:
            return _Form(encoding, separator or named[1], before=1)
        return _Form(encoding, separator or _separator(header, path))


def _separator(header: str, path: Path) -> str:
    """The separator that a header uses most, outside quotes."""
    outside = "".join(header.split('"')[::2])
    characters = "\t,;" if path.suffix.lower() == ".tsv" else ",;\t"
    return max(characters, key=outside.count)


def _quotes_hold(path: Path, form: _Form) -> bool:
    """Whether quotes around cells of a table with tabs are those of CSV, not characters of the texts."""
    try:
        for _ in _records(path, form):
            pass
    except CsvError:
        return False
    return True


def _records(path: Path, form: _Form) -> Iterator[CsvRecord]:
    """Read the rows of a file in a known form."""
    with path.open(encoding=form.encoding, newline="") as text:
        lines = _Lines(text)
        for _ in range(form.before):
            next(lines, None)
        reader = csv.reader(lines, delimiter=form.separator, quoting=form.quoting, strict=True)  # type: ignore[arg-type]  # one of csv's numbers
        width = 0
        while True:
            begins, lines.held = lines.number + 1, []
            try:
                cells = next(reader, None)
            except csv.Error as error:
                raise CsvError(begins, _syntax(error), _STRAY_QUOTE) from None
            if cells is None:
                return
            if not any(cells) and (len(cells) != 1 or width > 1):
                continue
            if len(lines.held) > 1 and _swallows(lines.held, form.separator, width):
                raise CsvError(begins, "has a cell that swallows the rows after it", _STRAY_QUOTE)
            width = width or len(cells)
            yield CsvRecord(begins, _fitting(cells, width, begins))


_STRAY_QUOTE: Final = (
    "a quote opens a cell there and is closed too late: write quotes within a text twice, with quotes around"
    " the whole cell, or save the file as JSON Lines"
)


class _Lines:
    """The lines of a text, with their number; those since the last row are held for a closer look."""

    def __init__(self, text: io.TextIOBase) -> None:
        self._text = text
        self.number = 0
        self.held: list[str] = []

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = next(self._text)
        if self.number == 0:  # a file that was saved twice may begin with two byte order marks
            line = line.lstrip("\ufeff")
        self.number += 1
        self.held.append(line)
        return line


def _syntax(error: csv.Error) -> str:
    if "unexpected end" in str(error):
        return "has a quote that is never closed"
    return f"is not CSV: {error}"


def _fitting(cells: list[str], width: int, line: int) -> list[str]:
    """The cells of a row, as many as the header has."""
    if len(cells) > width and not any(cells[width:]):
        return cells[:width]
    if len(cells) != width:
        raise CsvError(
            line,
            f"has {len(cells)} cells under {width} columns",
            "put quotes around cells with the separator",
        )
    return cells


def _swallows(lines: Sequence[str], separator: str, width: int) -> bool:
    """Whether a row of several lines is rather several rows, one a line, joined by a quote.

    Each line alone then has a cell for each column, numbers where the first has numbers, one word where it
    has one, and no blank after a separator, as prose has after a comma. In two columns, 9,750 is a number.
    """
    rows = [line.rstrip("\r\n").split(separator) for line in lines]
    if width < 2 or any(len(row) != width or not all(row) for row in rows):
        return False
    if any(cell[0].isspace() for row in rows for cell in row[1:]):
        return False
    if width == 2 and separator == "," and any(map(_THOUSANDS.search, lines)):
        return False
    numeric = [column for column, cell in enumerate(rows[0]) if _is_number(cell)]
    words = [column for column, cell in enumerate(rows[0]) if '"' not in cell and len(cell.split()) == 1]
    return all(_is_number(row[column]) for row in rows for column in numeric) and all(
        len(row[column].split()) == 1 for row in rows for column in words
    )


_THOUSANDS: Final = re.compile(r"\d,\d{3}(?!\d)")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _undecodable(path: Path, error: UnicodeDecodeError) -> CsvError:
    """The first line that cannot be decoded; the error itself only names a place in a buffer."""
    if (name := error.encoding[:6].upper().replace("_", "-")) in {"UTF-16", "UTF-32"}:
        return CsvError(1, f"is not {name}, although its first bytes say so", "save the file as UTF-8")
    return _wrong_byte(path) or CsvError(1, "is not UTF-8", "save the file as UTF-8")


def _wrong_byte(path: Path) -> CsvError | None:
    """Return the error about the first line of a file that is not UTF-8; ``None`` if all lines are."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode()
            except UnicodeDecodeError as wrong:
                file.seek(0)
                read = _encoding(file.read(4))
                encoding = "WINDOWS-1252" if read == "utf-8-sig" else read[:6].upper()
                return CsvError(
                    number,
                    f"holds the byte 0x{line[wrong.start]:02X}, which is not UTF-8",
                    f"save the file as UTF-8; on a command line: iconv -f {encoding} -t UTF-8",
                )
    return None


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


def _csv_rows(path: Path) -> Iterator[Row]:
    """The rows of a CSV or TSV file with a header; a row's place is the line on which it begins."""
    try:
        records = csv_records(path)
        header = _header(path, next(records, CsvRecord(1, [])))
        for record in records:
            cells = dict(zip(header, record.cells, strict=True))
            yield Row(f"line {record.line}", {name: cell for name, cell in cells.items() if name})
    except CsvError as error:
        raise DatasetError(error.message, where=f"{path}, line {error.line}", fix=error.fix) from None
    except OSError as error:
        raise _unreadable(path, error) from error


def _header(path: Path, record: CsvRecord) -> list[str]:
    """The columns' names; one without a name, as pandas writes its index, is called by its position."""
    if not any(name.strip() for name in record.cells):
        raise CsvError(record.line, "has no header", "name the columns in the first line")
    last = max(position for position, name in enumerate(record.cells) if name.strip())
    names = [
        name if name.strip() else f"column {position + 1}" if position < last else ""
        for position, name in enumerate(record.cells)
    ]
    _refuse_repeated(filter(None, names), f"{path}, line {record.line}")
    return names


def _json_tasks(path: Path) -> Iterator[Row]:
    """An array of tasks, each with ``data`` and perhaps ``id``, or of plain objects, read one by one."""
    place = "the first task"
    with _reading(path) as file:
        if file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"[":
            raise _not_text(path) or DatasetError(
                "is not a JSON array",
                where=str(path),
                fix='write [task, …], as pandas does with orient="records", or name the file *.jsonl',
            )
        file.seek(3 if file.seek(0) == 0 and file.read(3) == b"\xef\xbb\xbf" else 0)
        try:
            # With floats, ijson refuses integers beyond 64 bits, such as ids of 20 digits.
            for number, value in enumerate(ijson.items(file, "item"), start=1):
                place = f"task {number}"
                yield _task_row(_without_decimals(value), place, path)
                place = f"task {number + 1}"
        except ijson.JSONError:
            raise _not_text(path) or DatasetError(
                "is not JSON",
                where=f"{path}, {place}",
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
    if (foreign := _foreign_format(path)) is not None:
        return DatasetError(foreign[0], where=str(path), fix=foreign[1])
    if (wrong := _wrong_byte(path)) is not None:
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


def _json_lines(path: Path) -> Iterator[Row]:
    """One object per line: plain rows, or Label Studio's tasks. Blank lines are skipped."""
    with _reading(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            place = f"line {number}"
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                raise _not_text(path) or DatasetError(
                    "is not JSON", where=f"{path}, {place}", fix="write one JSON object per line"
                ) from None
            yield _task_row(value, place, path)


@dataclass(frozen=True, slots=True)
class _TextFile:
    """A file of text, and what reads its rows."""

    path: Path
    read: Callable[[Path], Iterator[Row]]

    def rows(self) -> Iterator[Row]:
        return self.read(self.path)


_ROWS = 1000
"""Rows converted at once."""


@dataclass(frozen=True, slots=True)
class ParquetRows:
    """A Parquet file. Only some rows are in memory at a time, beside what one row group needs."""

    path: Path

    def rows(self) -> Iterator[Row]:
        """Read the rows; a row's place is its number, counted from 1."""
        return self.rows_from(0)

    def types(self) -> dict[str, Any]:
        """The columns with pyarrow's types."""
        parquet = pyarrow_parquet()
        with _reading(self.path) as file, parquet.ParquetFile(file) as table:
            return {column.name: column.type for column in table.schema_arrow}

    def rows_from(self, start: int) -> Iterator[Row]:
        """Read the rows from number ``start``, counted from 0. Row groups before it are not read."""
        parquet = pyarrow_parquet()
        with _reading(self.path) as file:
            try:
                # Buffered columns are freed while a group is read; pre-buffering would keep all of it.
                with parquet.ParquetFile(file, pre_buffer=False, buffer_size=1 << 16) as table:
                    _refuse_repeated(table.schema_arrow.names, str(self.path))
                    groups, number = _groups_from(table.metadata, start)
                    for batch in table.iter_batches(_ROWS, row_groups=groups, use_threads=False):
                        skipped = min(max(start - number, 0), batch.num_rows)
                        for position, values in enumerate(
                            batch.slice(skipped).to_pylist(), number + skipped + 1
                        ):
                            yield Row(f"row {position}", {name: _decoded(values[name]) for name in values})
                        number += batch.num_rows
            except (ValueError, OSError) as error:  # pyarrow's errors are subclasses of these
                if "Install pandas" in str(error):
                    raise DatasetError(
                        "has times in nanoseconds, which only pandas can read",
                        where=str(self.path),
                        fix="install pandas, or write the times in microseconds",
                    ) from None
                raise DatasetError(
                    "is not Parquet", where=str(self.path), fix="write the file again"
                ) from error


def _refuse_repeated(names: Iterable[str], where: str) -> None:
    """Check that no two columns have the same name."""
    seen = set[str]()
    for name in names:
        if name in seen:
            raise DatasetError(
                f"has two columns {name!r}", where=where, fix="give each column a name of its own"
            )
        seen.add(name)


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
    ".csv": partial(_TextFile, read=_csv_rows),
    ".tsv": partial(_TextFile, read=_csv_rows),
    ".jsonl": partial(_TextFile, read=_json_lines),
    ".ndjson": partial(_TextFile, read=_json_lines),
    ".json": partial(_TextFile, read=_json_tasks),
    ".parquet": ParquetRows,
}


def open_source(path: Path) -> Source:
    """The source that reads a file.

    Raises:
        DatasetError: there is no such file, it is a folder, or its ending names no format.
    """
    if path.is_dir():
        raise DatasetError("is a folder, not a file", where=str(path), fix="name a file in it")
    if not path.is_file():
        raise DatasetError("there is no such file", where=str(path), fix="check the path")
    try:
        return _FORMATS[path.suffix.lower()](path)
    except KeyError:
        if (foreign := _foreign_format(path)) is not None:
            raise DatasetError(foreign[0], where=str(path), fix=foreign[1]) from None
        raise DatasetError(
            f"the ending {path.suffix!r} names no format",
            where=str(path),
            fix=f"use one of {', '.join(_FORMATS)}; Excel saves a sheet as CSV UTF-8",
        ) from None
