"""Rows as tasks: the part of a row that models are asked about, and its number in the ledger.

A task's number is a hash of that part. So the order of the rows changes nothing, and rows of equal text are
one task, which is asked about once.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import json
import math
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol
from xml.sax.saxutils import quoteattr

from backend.datasets.sources import ParquetRows, Row, Source
from backend.errors import ConfigError, DatasetError, DiskFullError, MissingFieldError, TaskError
from backend.ledger.database.statements import portions
from backend.questions import LabelConfig, parse_label_config
from backend.questions.label_config import require_questions
from backend.questions.naming import first_alike
from backend.questions.objects import ABSENT, look_up
from backend.questions.xml import VARIABLE

_MOST_COLUMNS = 2_000
"""The most columns: more are a sign of objects whose keys are data."""


class Columns:
    """Gathers the columns of rows: their names in order of appearance, and the types of their values.

    Attributes:
        of_parquet: name → pyarrow's type, if the rows are those of a Parquet file.
    """

    def __init__(self) -> None:
        self._types: dict[str, set[type]] = {}
        self.of_parquet: Mapping[str, Any] = {}

    def add(self, data: Mapping[str, Any]) -> None:
        """Take one row into account.

        Raises:
            DatasetError: there are too many columns.
        """
        for name, value in data.items():
            types = self._types.setdefault(name, set())
            if isinstance(value, int) and abs(value) >= 2**63:
                types.add(str)  # no column of integers holds it
            elif value is not None:
                types.add(type(value))
        if len(self._types) > _MOST_COLUMNS:
            raise DatasetError(
                f"has more than {_MOST_COLUMNS:,} columns",
                where="columns",
                fix="give all rows the same columns",
            )

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return list(self._types)

    def kind(self, name: str) -> type | None:
        """The type of a column's values; ``float`` for a mix with ``int``, ``None`` for any other mix."""
        types = self._types[name]
        if types == {int, float}:
            return float
        return next(iter(types)) if len(types) == 1 else None


_TEXT = re.compile(r"(\d{1,6})/(\d{1,6})")


@dataclass(frozen=True, slots=True)
class Shard:
    """One part of a dataset, such as the third of 16.

    >>> Shard(3, 16).holds(18)
    True
    """

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read a shard such as ``3/16``.

        Raises:
            ConfigError: it is none.
        """
        match = _TEXT.fullmatch(text.strip())
        number, of = map(int, match.groups()) if match else (0, 0)
        if not 1 <= number <= of:
            raise ConfigError(f"{text!r} is no shard", where="--shard", fix="write 3/16 for the third of 16")
        return cls(number, of)

    def holds(self, task: int) -> bool:
        """Whether a task of this number is in the shard."""
        return task % self.of == self.number - 1


WHOLE = Shard(1, 1)
"""The only shard of a dataset that is not divided."""

_VARIABLE = re.compile(r"\$([^\s,${}\"'<>]+)")
_FIELDS = re.compile(r"camvo_fields\s*=\s*[\"']([^\"']*)")
_STEP = re.compile(r"[.\[]")


@dataclass(frozen=True, slots=True)
class DatasetTask:
    """One row as a task.

    Attributes:
        row: the row that it comes from.
        id: its id: that of the id column or the format, else one made of its number.
        number: its number in the ledger, in [0, 2⁶³); rows of equal content have the same.
        data: what the label config reads of the row.
    """

    row: Row
    id: str
    number: int
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Dataset:
    """A source, and how its rows become tasks.

    Attributes:
        source: the rows.
        label_config: the label config as XML.
        id_column: the column of the ids; ``None`` for those of the format, or made of the content.
        renamed: key of the task's data → the column that holds it, where the two differ.
        shard: the part of the source whose rows are labelled.
    """

    source: Source
    label_config: str
    id_column: str | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    shard: Shard = WHOLE

    @property
    def config(self) -> LabelConfig:
        """The parsed label config.

        Raises:
            BadLabelConfigError: it cannot be parsed, or nothing in it can be voted on.
        """
        config = parse_label_config(self.label_config)
        require_questions(config)
        return config

    def absent(self, columns: Columns) -> list[str]:
        """Return the columns that the label config shows among its words and that no row has."""
        fields = {each for question in self.config.questions for each in question.fields if each.optional}
        names = {self.renamed.get(each.key, each.key) for each in fields}
        return sorted(name for name in names if not {name, _STEP.split(name)[0]} & set(columns.names))

    def tasks(self) -> Iterator[DatasetTask]:
        """Read the shard's tasks in the order of the rows.

        Raises:
            DatasetError: as for :meth:`all_tasks`.
        """
        return (task for task in self.all_tasks() if self.shard.holds(task.number))

    def all_tasks(self) -> Iterator[DatasetTask]:
        """Read the tasks of the whole source in the order of the rows.

        Raises:
            DatasetError: a row cannot be read, has no id, or lacks the columns that the label config reads.
        """
        keys, config = keys_read(self.label_config), self.config
        for before, row in enumerate(self.source.rows()):
            data = task_data(row, {key: self.renamed.get(key, key) for key in keys}, self.place(row))
            self._require_columns(config, row, data, first=before == 0)
            number = content_number(data)
            yield DatasetTask(row, self._id(row, number), number, data)

    def _id(self, row: Row, number: int) -> str:
        if self.id_column is None:
            return row.id or task_name(number)
        value = row.data.get(self.id_column)
        if value is None or not str(value).strip():
            raise DatasetError(
                f"has no id in column {self.id_column!r}",
                where=self.place(row),
                fix="give each row an id, or leave out --id-column",
            )
        return str(value)

    def _require_columns(
        self, config: LabelConfig, row: Row, data: Mapping[str, Any], *, first: bool
    ) -> None:
        missing = None
        for question in config.questions:
            try:
                question.texts(data)
            except MissingFieldError as error:
                missing = missing or error
            except TaskError:
                return
            else:
                return
        if missing is not None:
            raise self._unusable((missing.where or "").removeprefix("data."), row, data, missing, first=first)

    def _unusable(
        self, key: str, row: Row, data: Mapping[str, Any], missing: MissingFieldError, *, first: bool
    ) -> DatasetError:
        """The error about a row whose text is missing, or is no text."""
        column = self.renamed.get(key, key)
        value = data.get(key)
        if key in data and not (isinstance(value, Mapping) and value and key in self.renamed):
            return DatasetError(
                f"has something else than text in column {column!r}: {missing.message}",
                where=self.place(row),
                fix=missing.fix,
            )
        if isinstance(value, Mapping):
            return DatasetError(
                f"has an object in column {column!r}, where text is expected",
                where=self.place(row),
                fix="name one of its keys: "
                + ", ".join(f"--text-column {column}.{name}" for name in list(value)[:3]),
            )
        return DatasetError(
            f"has no text in column {column!r}, which the question is about",
            where=self.place(row),
            fix=f"its columns are {', '.join(map(repr, list(row.data)[:20]))}: "
            + ("name one of them" if first else 'earlier rows have it, so write "" for a blank text'),
        )

    def place(self, row: Row) -> str:
        """Return the position of a row: the file and the line."""
        return f"{self.source.path}, {row.place}"


def keys_read(label_config: str) -> list[str]:
    """The keys of a task's data that a label config may read, in a fixed order.

    A variable such as ``$a.b`` may be a key of this name or a path below ``a``. Among words it ends before a
    punctuation mark.
    """
    listed = ",".join(_FIELDS.findall(label_config)).split(",")
    variables = {*_VARIABLE.findall(label_config), *VARIABLE.findall(label_config)}
    names = [*variables, *(name.strip() for name in listed)]
    return sorted({key for name in names for key in (name, _STEP.split(name)[0]) if key})


def content_number(data: Mapping[str, Any]) -> int:
    """A hash of a task's data in [0, 2⁶³)."""
    content = json.dumps(data, sort_keys=True)
    return int.from_bytes(hashlib.sha256(content.encode()).digest()[:8], "big") >> 1


def task_name(number: int) -> str:
    """A task's number as text; a spreadsheet would round the number itself."""
    return f"t{number:016x}"


def task_number(name: str) -> int | None:
    """The number in such a name; ``None`` if it is none."""
    return int(name[1:], 16) if re.fullmatch(r"t[0-9a-f]{16}", name) else None


def task_data(row: Row, columns: Mapping[str, str], place: str) -> dict[str, Any]:
    """What a task holds of a row, as JSON can hold it: dates become text, NaN and infinities are missing.

    Args:
        row: the row.
        columns: key of the task's data → its column, or a path such as ``text.en`` below a column.
        place: the row's position, for errors.

    Raises:
        DatasetError: a value holds bytes that are not UTF-8.
    """
    data = {}
    for key, column in columns.items():
        value = row.data[column] if column in row.data else look_up(row.data, column)
        try:
            if value is not ABSENT:
                data[key] = _plain(value)
        except UnicodeDecodeError:
            raise DatasetError(
                f"holds bytes in column {column!r} that are not UTF-8",
                where=place,
                fix="write the column as text",
            ) from None
    return data


def _plain(value: object) -> Any:
    match value:
        case None | str() | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else None
        case bytes():
            return value.decode()
        case Mapping():
            return {str(key): _plain(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case _:
            return str(value)


class IndexedTasks(Protocol):
    """Tasks that were read once, so that their number and those of equal content are known."""

    rows: int
    """How many rows there are."""
    tasks: int
    """How many tasks, rows of equal content counted once."""
    columns: Columns
    """The columns of the whole source."""

    def every_row(self) -> Iterator[DatasetTask]:
        """Read the task of each row, in the order of the rows."""

    def first_rows(self) -> Iterator[DatasetTask]:
        """Read each task once."""

    def is_first(self) -> Iterator[bool]:
        """Whether each row, in its order, is the first of its task in the source."""


_PLAIN_CONFIG_VARIABLE = re.compile(r"[^\s,${}.\[\]\"'<>&]+")
"""Column names that a label config can refer to as ``$name``."""

_NOT_IN_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""A character that no XML document can hold."""

_CONTROL = "label"
"""The name of the question."""


def text_key(column: str) -> str:
    """The key under which a task holds the text: the column's name if a label config can refer to it."""
    return column if _PLAIN_CONFIG_VARIABLE.fullmatch(column) else "text"


def plain_label_config(labels: Sequence[str], column: str, ordered: str | None = None) -> str:
    """Write the label config that asks for one of ``labels`` about the text in ``column``.

    Args:
        labels: the labels, with ``ordered`` the lowest or the highest first.
        column: the column of the text.
        ordered: the error that the answer minimises if the labels are a scale.

    Raises:
        ConfigError: there are fewer than two labels, two are alike, or one has a character that XML lacks.
    """
    twice = next((label for place, label in enumerate(labels) if label in labels[:place]), None)
    if twice is not None:
        raise ConfigError(f"names {twice!r} twice", where="--labels", fix="name each label once")
    if (alike := first_alike(labels)) is not None:
        first, second = map(repr, alike)
        raise ConfigError(
            f"names {first} and {second}, which differ only in case or blanks",
            where="--labels",
            fix="name each label once",
        )
    if (unwritable := next(filter(_NOT_IN_XML.search, labels), None)) is not None:
        raise ConfigError(
            f"{unwritable!r} has a control character", where="--labels", fix="leave the character out"
        )
    if len(labels) < 2:
        raise ConfigError(
            "names fewer than two labels",
            where="--labels",
            fix="give them with commas: --labels Positive,Negative",
        )
    choices = "\n".join(f"    <Choice value={quoteattr(label)}/>" for label in labels)
    scale = f' camvo_ordered="true" camvo_error="{ordered}"' if ordered else ""
    return (
        "<View>\n"
        f'  <Text name="text" value="${text_key(column)}"/>\n'
        f'  <Choices name="{_CONTROL}" toName="text"{scale}>\n{choices}\n  </Choices>\n'
        "</View>\n"
    )


_ROWS = 5_000
"""Rows that one statement inserts."""

_FIRST_ROWS = "SELECT position, number FROM tasks WHERE position IS NOT NULL ORDER BY rowid"
"""The first row of each task of the shard, in the order of the rows."""

_MEMORY_KB = 2_000
"""SQLite's cache. Each of its sorters takes as much."""


class Index:
    """The index of one dataset on disk: rows that are one task, repeated ids, samples. A context manager.

    It holds a few bytes a row. SQLite sorts in files, so memory stays the same for any number of rows.

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
        for batch in portions(enumerate(self._dataset.all_tasks()), _ROWS):
            execute("BEGIN")
            self._database.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", map(self._entry, batch))
            execute("COMMIT")
            lines += len(batch)
            advance(len(batch))
        if not lines:
            raise DatasetError("has no rows", where=str(self._dataset.source.path), fix="give it some")
        self._refuse_repeated_ids()
        if isinstance(source := self._dataset.source, ParquetRows):
            self.columns.of_parquet = source.types()
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

    def lacks(self, numbers: Iterable[int]) -> list[int]:
        """Which of these tasks no row of the whole source is about."""
        lacking = "SELECT value FROM json_each(?) WHERE value NOT IN (SELECT number FROM tasks)"
        return [number for (number,) in self._database.execute(lacking, (json.dumps([*numbers]),))]

    def smallest(self, draw: Callable[[int], int], count: int) -> list[int]:
        """The ``count`` smallest draws, in ascending order: with a hash, a random sample of the tasks.

        Args:
            draw: from a task's number to a number.
            count: how many; fewer if there are fewer tasks. Drawn from the whole source.
        """
        # Not as a function of SQLite's, which makes an error of its own of Ctrl-C.
        numbers = self._database.execute("SELECT number FROM tasks")
        return heapq.nsmallest(count, (draw(number) for (number,) in numbers))

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


_PARTS = 64
_FEWEST_ROWS, _MOST_ROWS = 100, 10_000
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
        size, flags = min(max(-(-rows // _PARTS), _FEWEST_ROWS), _MOST_ROWS), enumerate(is_first)
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
