"""Label Studio's JSON: an array of tasks, as it is imported and exported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import ijson

from backend.datasets.sources.reading import reading
from backend.datasets.sources.row import Row
from backend.errors import DatasetError


@dataclass(frozen=True, slots=True)
class JsonTasks:
    """An array of tasks, each with ``data`` and perhaps ``id``, or of plain objects."""

    path: Path

    def rows(self) -> Iterator[Row]:
        """Read the tasks one by one; the array is never in memory as a whole."""
        place = "the first task"
        with reading(self.path) as file:
            if file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"[":
                raise DatasetError(
                    "is not a JSON array",
                    where=str(self.path),
                    fix="write [task, …], or name the file *.jsonl",
                )
            file.seek(3 if file.seek(0) == 0 and file.read(3) == b"\xef\xbb\xbf" else 0)
            try:
                for number, value in enumerate(ijson.items(file, "item", use_float=True), start=1):
                    place = f"task {number}"
                    yield task_row(value, place, self.path)
                    place = f"task {number + 1}"
            except ijson.JSONError:
                raise DatasetError(
                    "is not JSON", where=f"{self.path}, {place}", fix="export the tasks again"
                ) from None


def task_row(value: object, place: str, path: Path) -> Row:
    """Make a row of a JSON object: a task of Label Studio, or a plain row.

    Raises:
        DatasetError: the value is no object.
    """
    if not isinstance(value, Mapping):
        raise DatasetError("is not a JSON object", where=f"{path}, {place}", fix='write {"column": value, …}')
    data = value.get("data")
    if not isinstance(data, Mapping):
        return Row(place, value)
    number = value.get("id")
    return Row(place, data, None if number is None else str(number))
