"""A temporary index of a dataset on disk: which rows are one task, ids that repeat, random samples.

It holds a few bytes a row. SQLite sorts in files, so memory stays the same for any number of rows.
"""

from __future__ import annotations

import itertools
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from types import TracebackType

from backend.datasets.sources import ParquetRows, Row, Source
from backend.datasets.tasks import Columns, Dataset, DatasetTask
from backend.errors import DatasetError, DiskFullError

_ROWS = 5_000
"""Rows that one statement inserts."""

_FIRST_ROWS = "SELECT position, number FROM tasks WHERE position IS NOT NULL ORDER BY rowid"
"""The first row of each task of the shard, in the order of the rows."""

_MEMORY_KB = 2_000
"""SQLite's cache. Each of its sorters takes as much."""


class Index:
    """The index of one dataset. A context manager; the file disappears at the end.

    The whole source is read and checked, also where only a shard of it is labelled. The attributes are those
    of :class:`~backend.datasets.tasks.IndexedTasks`; ``tasks_in_all`` counts the tasks of the whole source.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        # Without a name, SQLite makes a file of its own that is gone with the process, also after kill -9.
        self._database = sqlite3.connect("", isolation_level=None)
        self.rows = self.tasks = self.tasks_in_all = 0
        self.columns = Columns()

    def __enter__(self) -> Index:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.close()

    def build(self, advance: Callable[[int], object] = lambda rows: None) -> None:
        """Read the whole dataset once.

        Args:
            advance: called with the number of rows read since the last call.

        Raises:
            DatasetError: a row is wrong, the dataset is empty, two rows have the same id, or the disk of
                temporary files is full.
        """
        try:
            self._build(advance)
        except sqlite3.OperationalError as error:
            raise DiskFullError(
                f"the disk is full: {error}",
                where="the index of the rows",
                fix="make room, or let TMPDIR name a folder with more",
            ) from error

    def _build(self, advance: Callable[[int], object]) -> None:
        execute = self._database.execute
        for pragma in ("journal_mode=OFF", "synchronous=OFF", "temp_store=FILE", f"cache_size=-{_MEMORY_KB}"):
            execute(f"PRAGMA {pragma}")
        execute("CREATE TABLE rows (line INTEGER PRIMARY KEY, position INTEGER, number INTEGER, id TEXT)")
        lines = 0
        for batch in _batched(enumerate(self._dataset.all_tasks()), _ROWS):
            execute("BEGIN")
            self._database.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", map(self._entry, batch))
            execute("COMMIT")
            lines += len(batch)
            advance(len(batch))
        if not lines:
            raise DatasetError("has no rows", where=str(self._dataset.source.path), fix="give it some")
        self._refuse_repeated_ids()
        # The sorts go through files: an index that grows row by row would need all its pages in memory.
        execute(
            "CREATE TABLE tasks AS SELECT min(position) AS position, number FROM rows GROUP BY number"
            " ORDER BY 1"
        )
        self.tasks_in_all, self.tasks = execute("SELECT count(*), count(position) FROM tasks").fetchone()

    def every_row(self) -> Iterator[DatasetTask]:
        """Read the task of each row of the shard, in the order of the rows."""
        return self._dataset.tasks()

    def first_rows(self) -> Iterator[DatasetTask]:
        """Read each task once, from the first of its rows.

        Raises:
            DatasetError: the file has changed since :meth:`build`.
        """
        wanted = self._database.execute(_FIRST_ROWS)
        next_one = next(wanted, None)
        for position, task in enumerate(self._dataset.tasks()):
            if next_one is None:
                return
            if position == next_one[0]:
                if task.number != next_one[1]:
                    break
                yield task
                next_one = next(wanted, None)
        if next_one is not None:
            raise DatasetError(
                "has changed while it was read", where=str(self._dataset.source.path), fix="run it again"
            )

    def is_first(self) -> Iterator[bool]:
        """Whether each row, in its order, is the first of its task."""
        first = itertools.chain((row[0] for row in self._database.execute(_FIRST_ROWS)), [-1])
        next_one = next(first)
        for position in range(self.rows):
            yield position == next_one
            if position == next_one:
                next_one = next(first)

    def smallest(self, draw: Callable[[int], int], count: int) -> list[int]:
        """The ``count`` smallest draws, in ascending order: with a hash, a random sample of the tasks.

        Args:
            draw: from a task's number to a number in [0, 2⁶³).
            count: how many; fewer if there are fewer tasks. Drawn from the whole source.
        """
        self._database.create_function("draw", 1, draw, deterministic=True)
        drawn = self._database.execute("SELECT draw(number) AS d FROM tasks ORDER BY d LIMIT ?", (count,))
        return [row[0] for row in drawn]

    def _entry(self, item: tuple[int, DatasetTask]) -> tuple[int, int | None, int, str | None]:
        line, task = item
        self.columns.add(task.row.data)
        position = None
        if self._dataset.shard.holds(task.number):
            position = self.rows
            self.rows += 1
        has_own_id = self._dataset.id_column is not None or task.row.id is not None
        return line, position, task.number, task.id if has_own_id else None

    def _refuse_repeated_ids(self) -> None:
        repeated = self._database.execute(
            "SELECT min(line), max(line) FROM rows WHERE id IS NOT NULL GROUP BY id"
            " HAVING count(*) > 1 ORDER BY 1 LIMIT 1"
        ).fetchone()
        if repeated is None:
            return
        first, last = (
            next(itertools.islice(self._dataset.source.rows(), line, None)).place for line in repeated
        )
        raise DatasetError(
            f"{last} has the same id as {first}",
            where=str(self._dataset.source.path),
            fix="give each row an id of its own, or leave out --id-column",
        )


def _batched(items: Iterator[tuple[int, DatasetTask]], size: int) -> Iterator[list[tuple[int, DatasetTask]]]:
    while batch := list(itertools.islice(items, size)):
        yield batch


_PARTS = 64
_FEWEST, _MOST = 100, 10_000
"""Rows of a part: as many as make some 64 parts, within these limits."""

_NAME = re.compile(r"part-\d{5,}\.parquet")


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive rows of a dataset, from ``start`` to before ``stop``; ``repeats`` repeat earlier rows."""

    number: int
    start: int
    stop: int
    repeats: frozenset[int]

    @property
    def file_name(self) -> str:
        """The name of the file of its results."""
        return f"part-{self.number:05d}.parquet"

    @classmethod
    def every(cls, rows: int, is_first: Iterable[bool]) -> Iterator[Part]:
        """Divide a dataset."""
        size, flags = min(max(-(-rows // _PARTS), _FEWEST), _MOST), enumerate(is_first)
        for number, start in enumerate(range(0, rows, size)):
            stop = min(start + size, rows)
            repeats = frozenset(row for row, first in islice(flags, stop - start) if not first)
            yield cls(number, start, stop, repeats)

    @classmethod
    def stale(cls, names: Iterable[str], parts: int) -> list[str]:
        """Those of the files in a folder of results that an earlier run over more rows has left there."""
        kept = {cls(number, 0, 0, frozenset()).file_name for number in range(parts)}
        return [name for name in names if _NAME.fullmatch(name) and name not in kept]


@dataclass(frozen=True, slots=True)
class _RowsBetween:
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
    """The tasks of a part, in memory."""

    def __init__(self, dataset: Dataset, part: Part, columns: Columns) -> None:
        between = _RowsBetween(dataset.source, part.start, part.stop)
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
