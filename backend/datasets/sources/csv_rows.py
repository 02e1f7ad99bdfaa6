"""CSV with a header, as RFC 4180 and spreadsheets write it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from backend.datasets.sources.reading import reading
from backend.datasets.sources.row import Row
from backend.errors import DatasetError

_LONGEST = 1 << 27
"""The longest cell in characters; Python's own limit is 131,072."""


@dataclass(frozen=True, slots=True)
class CsvRows:
    """A CSV file in UTF-8, with a header. The separator is a comma, a semicolon or a tab."""

    path: Path

    def rows(self) -> Iterator[Row]:
        """Read the rows; a row's place is the line on which it begins."""
        csv.field_size_limit(_LONGEST)
        with reading(self.path) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
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
