"""CSV and TSV as spreadsheets, pandas and people write them: encodings, separators, quotes, blank cells.

A quote that somebody typed as a character can join rows into one cell without any error of syntax. Such
a file is read without quoting if it is separated by tabs, and refused with its line otherwise.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

_LONGEST: Final = 1 << 27
"""The longest cell in characters; Python's own limit is 131,072."""

_SEPARATOR_LINE: Final = re.compile(r'\ufeff?"?sep=(.)"?\s*', re.IGNORECASE)
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
        path: the file, in UTF-8, or in UTF-16 with a byte order mark.
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


def foreign_format(path: Path) -> tuple[str, str] | None:
    """Return what a file is in place of text, and what to do; ``None`` if its bytes do not say so.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        first = file.read(4)
        if first == _PARQUET:
            file.seek(-4, os.SEEK_END)
            first = file.read(4)
    return next((said for mark, said in _FOREIGN.items() if first.startswith(mark)), None)


def _encoding(first: bytes) -> str:
    """The encoding by the first two bytes: a mark, or the NUL beside an ASCII character in UTF-16."""
    if first in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    if len(first) == 2 and 0 in first and any(first):
        return "utf-16-be" if first[0] == 0 else "utf-16-le"
    return "utf-8-sig"


def _written_form(path: Path, separator: str | None) -> _Form:
    """The form by the first bytes and the first line."""
    if (foreign := foreign_format(path)) is not None:
        raise CsvError(1, *foreign)
    with path.open("rb") as file:
        encoding = _encoding(file.read(2))
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

    Each line alone then has a cell for each column, numbers where the first has numbers, and no blank after
    a separator, as prose has after a comma.
    """
    rows = [line.rstrip("\r\n").split(separator) for line in lines]
    if width < 2 or any(len(row) != width or not all(row) for row in rows):
        return False
    if any(cell[0].isspace() for row in rows for cell in row[1:]):
        return False
    numeric = [column for column, cell in enumerate(rows[0]) if _is_number(cell)]
    return all(_is_number(row[column]) for row in rows for column in numeric)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _undecodable(path: Path, error: UnicodeDecodeError) -> CsvError:
    """The first line that cannot be decoded; the error itself only names a place in a buffer."""
    if error.encoding.startswith("utf-16"):
        return CsvError(1, "is not UTF-16, although its first bytes say so", "save the file as UTF-8")
    return wrong_byte(path) or CsvError(1, "is not UTF-8", "save the file as UTF-8")


def wrong_byte(path: Path) -> CsvError | None:
    """Return the error about the first line of a file that is not UTF-8; ``None`` if all lines are.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode()
            except UnicodeDecodeError as wrong:
                return CsvError(
                    number,
                    f"holds the byte 0x{line[wrong.start]:02X}, which is not UTF-8",
                    "save the file as UTF-8; on a command line: iconv -f WINDOWS-1252 -t UTF-8",
                )
    return None
