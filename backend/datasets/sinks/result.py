"""What is written about one row."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

PREFIX = "camvo_"
"""Begins the name of each column that is added to those of the source."""


@dataclass(frozen=True, slots=True)
class Result:
    """A row of the source with what CaMVo says about it.

    Attributes:
        data: the row's own columns.
        added: the columns that CaMVo adds, by name; the same names for every row.
        content: the task's data as the label config reads it.
        predictions: the predictions in Label Studio's form.
    """

    data: Mapping[str, Any]
    added: Mapping[str, Any]
    content: Mapping[str, Any]
    predictions: Sequence[Mapping[str, Any]]

    @property
    def row(self) -> dict[str, Any]:
        """All columns; an added one replaces one of the source with its name."""
        return {**self.data, **self.added}


class Sink(Protocol):
    """A file that results are written to, one by one. A context manager: an error leaves no file."""

    def __enter__(self) -> Sink:
        """Open the file."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file, and put it in its place if there was no error."""

    def write(self, result: Result) -> None:
        """Write one result."""


def cell(value: object) -> str:
    """A value as one cell of text: objects and lists as JSON, nothing as an empty cell."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case dict() | list():
            return json.dumps(value, ensure_ascii=False, default=str)
        case _:
            return str(value)
