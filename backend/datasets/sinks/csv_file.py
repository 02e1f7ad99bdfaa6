"""CSV with a header."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from backend.datasets.sinks.result import Result, cell
from backend.datasets.sinks.whole_file import WholeFile


class CsvSink:
    """A CSV file in UTF-8; objects and lists are cells of JSON.

    Args:
        path: the file.
        columns: the columns of the source; those that CaMVo adds come after them.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self._whole, self._columns = WholeFile(path), columns
        self._writer: csv.DictWriter[str] | None = None

    def __enter__(self) -> CsvSink:
        self._text = io.TextIOWrapper(self._whole.__enter__(), "utf-8", errors="replace", newline="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._text.flush()
        self._whole.__exit__(kind, error, trace)

    def write(self, result: Result) -> None:
        """Write one line, and before the first one the header."""
        row = {name: cell(value) for name, value in result.row.items()}
        if self._writer is None:
            names = dict.fromkeys([*self._columns, *result.added])
            self._writer = csv.DictWriter(self._text, list(names), restval="")
            self._writer.writeheader()
        self._writer.writerow(row)
