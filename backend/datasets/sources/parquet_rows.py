"""Parquet, which needs the extra ``[parquet]``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
        parquet = pyarrow_parquet()
        number = 0
        with reading(self.path) as file:
            try:
                # Buffered columns are freed while a group is read; pre-buffering would keep all of it.
                with parquet.ParquetFile(file, pre_buffer=False, buffer_size=1 << 16) as table:
                    for batch in table.iter_batches(_ROWS, use_threads=False):
                        for values in batch.to_pylist():
                            number += 1
                            yield Row(f"row {number}", values)
            except (ValueError, OSError) as error:  # pyarrow's errors are subclasses of these
                raise DatasetError(
                    "is not Parquet", where=str(self.path), fix="write the file again"
                ) from error
