"""The sink of a file, by the file's ending."""

from __future__ import annotations

from pathlib import Path

from backend.datasets.columns import Columns
from backend.datasets.optional import pyarrow_parquet
from backend.datasets.sinks.csv_file import CsvSink
from backend.datasets.sinks.json_file import JsonLinesSink, LabelStudioSink
from backend.datasets.sinks.parquet_file import ParquetSink
from backend.datasets.sinks.result import Sink
from backend.datasets.sinks.whole_file import WholeFile, check_writable
from backend.errors import DatasetError

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


def open_sink(path: Path, columns: Columns) -> Sink:
    """The sink that writes a file; ``.json`` is Label Studio's import format.

    Args:
        path: the file; :func:`check_sink` has accepted it.
        columns: the columns of the source.
    """
    match path.suffix.lower():
        case ".csv":
            return CsvSink(path, columns.names)
        case ".parquet":
            return ParquetSink(WholeFile(path), columns)
        case ".json":
            return LabelStudioSink(path)
        case _:
            return JsonLinesSink(path)
