"""The source of a file, by the file's ending."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from backend.datasets.sources.csv_rows import CsvRows
from backend.datasets.sources.json_lines import JsonLines
from backend.datasets.sources.json_tasks import JsonTasks
from backend.datasets.sources.parquet_rows import ParquetRows
from backend.datasets.sources.row import Source
from backend.errors import DatasetError

_FORMATS: Mapping[str, Callable[[Path], Source]] = {
    ".csv": CsvRows,
    ".tsv": CsvRows,
    ".jsonl": JsonLines,
    ".ndjson": JsonLines,
    ".json": JsonTasks,
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
