"""Random samples of a dataset: the tasks of a pilot, or a few for a look."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import compress
from typing import Protocol

from backend.annotation.job import random_draw
from backend.datasets.indexed_tasks import IndexedTasks
from backend.datasets.tasks import DatasetTask


class SampledTasks(IndexedTasks, Protocol):
    """Tasks from which a sample can be drawn: those of a file, or of a project in Label Studio."""

    def smallest(self, draw: Callable[[int], int], count: int) -> list[int]:
        """The smallest draws of the tasks' numbers, ascending, at most ``count``."""


def sample_draw(project: str, task: int) -> int:
    """The draw of a task, the same in every process: the tasks with the smallest are a random sample."""
    return random_draw("sample", project, task) >> 1  # SQLite's integers have a sign


class RandomSample:
    """A random sample of the tasks: the same for every order of the rows, and part of every larger one.

    Args:
        index: the tasks.
        project: the project's key.
        size: how many tasks; all of them if there are not so many.

    The attributes are those of :class:`backend.datasets.indexed_tasks.IndexedTasks`.
    """

    def __init__(self, index: SampledTasks, project: str, size: int) -> None:
        self._index, self._project = index, project
        draws = index.smallest(self._draw, size)
        self._last = draws[-1] if draws else -1
        self.columns = index.columns
        self.tasks = len(draws)
        self.rows = sum(1 for _ in self.every_row())

    def every_row(self) -> Iterator[DatasetTask]:
        """Read the task of each row of the sample, in the order of the rows."""
        return filter(self._holds, self._index.every_row())

    def first_rows(self) -> Iterator[DatasetTask]:
        """Read each task once."""
        return filter(self._holds, self._index.first_rows())

    def is_first(self) -> Iterator[bool]:
        """Whether each row, in its order, is the first of its task."""
        return compress(self._index.is_first(), map(self._holds, self._index.every_row()))

    def _draw(self, task: int) -> int:
        return sample_draw(self._project, task)

    def _holds(self, task: DatasetTask) -> bool:
        return self._draw(task.number) <= self._last
