"""Parquet, which needs the extra ``[parquet]``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.datasets.optional import pyarrow_parquet
from backend.datasets.sources.reading import reading
from backend.datasets.sources.row import Row
from backend.errors import DatasetError

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
        with reading(self.path) as file:
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
