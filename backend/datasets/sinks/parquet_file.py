"""Parquet, which needs the extra ``[parquet]``."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, BinaryIO

from backend.datasets.columns import Columns
from backend.datasets.optional import pyarrow_parquet
from backend.datasets.sinks.result import Result, cell

_ROWS = 5_000
"""Rows in one row group."""

_KINDS = {bool: "bool_", int: "int64", float: "float64", str: "string"}


class ParquetSink:
    """A Parquet file. Columns of numbers, booleans and text keep their type; any others are text, as in CSV.

    Args:
        file: the file to write, such as a ``WholeFile``; entered and left with the sink.
        columns: the columns of the source with their types.
    """

    def __init__(self, file: AbstractContextManager[BinaryIO], columns: Columns) -> None:
        self._parquet = pyarrow_parquet()
        self._whole, self._columns = file, columns
        self._waiting: list[dict[str, Any]] = []
        self._writer: Any = None
        self._kinds: dict[str, type] = {}

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
        if not self._kinds:
            self._kinds = {name: self._columns.kind(name) or str for name in self._columns.names}
            self._kinds |= {name: _added_kind(name, value) for name, value in result.added.items()}
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
            {name: _stored(row.get(name), kind) for name, kind in self._kinds.items()}
            for row in self._waiting
        ]
        self._writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
        self._waiting = []


def _added_kind(name: str, value: object) -> type:
    """The type of a column that CaMVo adds; a first value may be missing, so the name decides."""
    if name.startswith(("camvo_score", "camvo_cost")):
        return float
    return bool if isinstance(value, bool) else str


def _stored(value: Any, kind: type) -> object:
    if value is None:
        return None
    return kind(value) if kind in {bool, int, float} else cell(value)
