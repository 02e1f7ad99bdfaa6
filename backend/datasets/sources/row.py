"""One row of a source, and what every source can do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a source.

    Attributes:
        place: where it stands, such as ``line 7``, for errors.
        data: the row's values by column.
        id: the id that the format itself gives, such as a Label Studio task's; ``None`` if it gives none.
    """

    place: str
    data: Mapping[str, Any]
    id: str | None = None


class Source(Protocol):
    """A file of rows that can be read more than once."""

    @property
    def path(self) -> Path:
        """The file."""

    def rows(self) -> Iterator[Row]:
        """Read the rows in the file's order, a few at a time.

        Raises:
            DatasetError: the file cannot be read, or a row is not in the format.
        """
