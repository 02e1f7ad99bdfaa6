"""Random samples of a dataset: the tasks of a pilot, or a few for a look."""

from __future__ import annotations

from collections.abc import Callable

from backend.annotation.job import random_draw
from backend.datasets.index import Index

Chosen = Callable[[int], bool]
"""Whether a task, by its number, is among those that a run is about."""


def everything(task: int) -> bool:
    """Every task."""
    return True


def random_sample(index: Index, project: str, size: int) -> Chosen:
    """A random sample of the tasks: the same for every order of the rows, and part of every larger one.

    Args:
        index: the tasks.
        project: the project's key.
        size: how many tasks; all of them if there are not so many.
    """

    def draw(task: int) -> int:
        return random_draw("sample", project, task) >> 1  # SQLite's integers have a sign

    draws = index.smallest(draw, size)
    last = draws[-1] if draws else -1
    return lambda task: draw(task) <= last
