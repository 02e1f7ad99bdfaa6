"""What a run needs to know of a dataset's tasks before it labels them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from backend.datasets.columns import Columns
from backend.datasets.tasks import DatasetTask


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
