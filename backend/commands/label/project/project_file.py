"""The labels of a Label Studio project in a file, beside the predictions that are stored there."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import repeat

from backend.commands.label.project.project_tasks import project_tasks
from backend.datasets.columns import Columns
from backend.datasets.tasks import DatasetTask
from backend.label_studio.client import Client


class ProjectTasks:
    """The tasks of a project as those of a file: each is one row, and a task of its own.

    Args:
        client: Label Studio.
        number: the project's number.
        tasks: how many tasks it has.
        untouched: whether :meth:`first_rows` leaves out what somebody has annotated or begun to.

    The attributes are those of :class:`backend.datasets.indexed_tasks.IndexedTasks`. The columns are those of
    the tasks that :meth:`first_rows` has read.
    """

    def __init__(self, client: Client, number: int, tasks: int, *, untouched: bool = False) -> None:
        self._client, self._number, self._untouched = client, number, untouched
        self.rows = self.tasks = tasks
        self.columns = Columns()

    def first_rows(self) -> Iterator[DatasetTask]:
        """Read each task once, page by page."""
        for task in project_tasks(self._client, self._number, untouched=self._untouched):
            self.columns.add(task.row.data)
            yield task

    def every_row(self) -> Iterator[DatasetTask]:
        """Read each task again; columns that are new since the first time are left out."""
        known = set(self.columns.names)
        for task in project_tasks(self._client, self._number):
            data = {name: value for name, value in task.row.data.items() if name in known}
            yield replace(task, row=replace(task.row, data=data))

    def smallest(self, draw: Callable[[int], int], count: int) -> list[int]:
        """The smallest draws of the tasks' numbers, ascending, at most ``count``."""
        return heapq.nsmallest(count, (draw(task.number) for task in self.first_rows()))

    def is_first(self) -> Iterator[bool]:
        """Each row is the first of its task, because it is the only one."""
        return repeat(True)
