"""Rows as tasks: the part of a row that models are asked about, and its number in the ledger.

A task's number is a hash of that part. So the order of the rows changes nothing, and rows of equal text are
one task, which is asked about once.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from xml.sax.saxutils import quoteattr

from backend.datasets.sources import Row, Source
from backend.errors import ConfigError, DatasetError, MissingFieldError, TaskError
from backend.questions import LabelConfig, parse_label_config
from backend.questions.label_config import require_questions
from backend.questions.objects import ABSENT, look_up
from backend.questions.xml import VARIABLE

_MOST = 2_000
"""The most columns: more are a sign of objects whose keys are data."""


class Columns:
    """Gathers the columns of rows: their names in order of appearance, and the types of their values."""

    def __init__(self) -> None:
        self._types: dict[str, set[type]] = {}

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
        if len(self._types) > _MOST:
            raise DatasetError(
                f"has more than {_MOST:,} columns", where="columns", fix="give all rows the same columns"
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

    @property
    def name(self) -> str:
        """Its name in a file, such as ``part-03-of-16``."""
        return f"part-{self.number:0{len(str(self.of))}d}-of-{self.of}"

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
        for row in self.source.rows():
            data = task_data(row, {key: self.renamed.get(key, key) for key in keys}, self.place(row))
            self._require_columns(config, row, data)
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

    def _require_columns(self, config: LabelConfig, row: Row, data: Mapping[str, Any]) -> None:
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
            raise self._unusable((missing.where or "").removeprefix("data."), row, data, missing)

    def _unusable(
        self, key: str, row: Row, data: Mapping[str, Any], missing: MissingFieldError
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
            fix=f"its columns are {', '.join(map(repr, list(row.data)[:20]))}: name one of them",
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

_CONTROL = "label"
"""The name of the question."""


def text_key(column: str) -> str:
    """The key under which a task holds the text: the column's name if a label config can refer to it."""
    return column if _PLAIN_CONFIG_VARIABLE.fullmatch(column) else "text"


def plain_label_config(labels: Sequence[str], column: str) -> str:
    """Write the label config that asks for one of ``labels`` about the text in ``column``.

    Raises:
        ConfigError: there are fewer than two labels, or one of them twice.
    """
    if len(set(labels)) < 2 or len(set(labels)) < len(labels):
        raise ConfigError(
            "names fewer than two labels, or one of them twice",
            where="--labels",
            fix="give them with commas: --labels Positive,Negative",
        )
    choices = "\n".join(f"    <Choice value={quoteattr(label)}/>" for label in labels)
    return (
        "<View>\n"
        f'  <Text name="text" value="${text_key(column)}"/>\n'
        f'  <Choices name="{_CONTROL}" toName="text">\n{choices}\n  </Choices>\n'
        "</View>\n"
    )
