"""Parts: consecutive rows of a dataset that one process labels and writes at a time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from backend.datasets.columns import Columns
from backend.datasets.sources.parquet_rows import ParquetRows
from backend.datasets.sources.row import Row, Source
from backend.datasets.tasks import Dataset, DatasetTask

_PARTS = 64
_FEWEST, _MOST = 100, 10_000
"""Rows of a part: as many as make some 64 parts, within these limits."""

_NAME = re.compile(r"part-\d{5,}\.parquet")


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive rows of a dataset.

    Attributes:
        number: which part, from 0.
        start: its first row, from 0.
        stop: the row after its last one.
        repeats: those of its rows whose content an earlier row of the dataset has.
    """

    number: int
    start: int
    stop: int
    repeats: frozenset[int]

    @property
    def file_name(self) -> str:
        """The name of the file of its results."""
        return f"part-{self.number:05d}.parquet"


def rows_of_a_part(rows: int) -> int:
    """How many rows a part of a dataset with so many rows has."""
    return min(max(-(-rows // _PARTS), _FEWEST), _MOST)


def parts_of(rows: int, is_first: Iterable[bool]) -> Iterator[Part]:
    """Divide a dataset.

    Args:
        rows: how many rows it has.
        is_first: whether each row, in its order, is the first of its task.
    """
    size, flags = rows_of_a_part(rows), enumerate(is_first)
    for number, start in enumerate(range(0, rows, size)):
        stop = min(start + size, rows)
        repeats = frozenset(row for row, first in islice(flags, stop - start) if not first)
        yield Part(number, start, stop, repeats)


def stale_names(names: Iterable[str], parts: int) -> list[str]:
    """Those of the files in a folder of results that an earlier run over more rows has left there."""
    kept = {Part(number, 0, 0, frozenset()).file_name for number in range(parts)}
    return [name for name in names if _NAME.fullmatch(name) and name not in kept]


@dataclass(frozen=True, slots=True)
class RowsBetween:
    """Consecutive rows of a source, as a source."""

    source: Source
    start: int
    stop: int

    @property
    def path(self) -> Path:
        """The file."""
        return self.source.path

    def rows(self) -> Iterator[Row]:
        """Read the rows. Parquet skips the row groups before them."""
        if isinstance(self.source, ParquetRows):
            return islice(self.source.rows_from(self.start), self.stop - self.start)
        return islice(self.source.rows(), self.start, self.stop)


class PartTasks:
    """The tasks of a part, in memory.

    Args:
        dataset: the whole dataset.
        part: which part of it.
        columns: the columns of the whole dataset.

    Attributes:
        rows: how many rows the part has.
        tasks: how many tasks, rows of equal content counted once.
        columns: the columns of the whole dataset.

    Raises:
        DatasetError: a row cannot be read.
    """

    def __init__(self, dataset: Dataset, part: Part, columns: Columns) -> None:
        between = RowsBetween(dataset.source, part.start, part.stop)
        self._part, self.columns = part, columns
        self._all = list(replace(dataset, source=between).tasks())
        self._first = {task.number: task for task in reversed(self._all)}
        self.rows, self.tasks = len(self._all), len(self._first)

    def every_row(self) -> Iterator[DatasetTask]:
        """The task of each row, in the order of the rows."""
        return iter(self._all)

    def first_rows(self) -> Iterator[DatasetTask]:
        """Each task once."""
        return (task for task in self._all if self._first[task.number] is task)

    def is_first(self) -> Iterator[bool]:
        """Whether each row is the first of its task in the whole dataset."""
        return (row not in self._part.repeats for row in range(self._part.start, self._part.stop))
