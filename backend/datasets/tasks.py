"""Rows as tasks: the part of a row that models are asked about, and its number in the ledger.

A task's number is a hash of that part. So the order of the rows changes nothing, and rows of equal text are
one task, which is asked about once.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from backend.datasets.shard import WHOLE, Shard
from backend.datasets.sources.row import Row, Source
from backend.errors import DatasetError, MissingFieldError, TaskError
from backend.questions import LabelConfig, parse_label_config
from backend.questions.label_config import require_questions

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
            data = {
                key: plain(row.data[column])
                for key in keys
                if (column := self.renamed.get(key, key)) in row.data
            }
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
            key = (missing.where or "").removeprefix("data.")
            raise DatasetError(
                f"has no text in column {self.renamed.get(key, key)!r}, which the question is about",
                where=self.place(row),
                fix=f"its columns are {', '.join(map(repr, list(row.data)[:20]))}: name one of them",
            )

    def place(self, row: Row) -> str:
        """Where a row stands: the file and the line."""
        return f"{self.source.path}, {row.place}"


def keys_read(label_config: str) -> list[str]:
    """The keys of a task's data that a label config may read, in a fixed order.

    A variable such as ``$a.b`` may be a key of this name or a path below ``a``.
    """
    listed = ",".join(_FIELDS.findall(label_config)).split(",")
    names = [*_VARIABLE.findall(label_config), *(name.strip() for name in listed)]
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


def plain(value: object) -> Any:
    """A value as JSON can hold it: dates and the like become their text."""
    return value if value is None or isinstance(value, str) else json.loads(json.dumps(value, default=str))
