"""JSON Lines: one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from backend.datasets.sources.json_tasks import task_row
from backend.datasets.sources.reading import reading
from backend.datasets.sources.row import Row
from backend.errors import DatasetError


@dataclass(frozen=True, slots=True)
class JsonLines:
    """A file with one object per line: plain rows, or Label Studio's tasks. Blank lines are skipped."""

    path: Path

    def rows(self) -> Iterator[Row]:
        """Read the objects."""
        with reading(self.path) as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield self._row(line, f"line {number}")

    def _row(self, line: bytes, place: str) -> Row:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            raise DatasetError(
                "is not JSON", where=f"{self.path}, {place}", fix="write one JSON object per line"
            ) from None
        return task_row(value, place, self.path)
