"""The progress bar of long commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Advance: TypeAlias = Callable[[int], object]
"""Called with the number of items that were finished since the last call."""


@contextmanager
def progress_bar(
    console: Console, description: str, total: int, *, transient: bool = False
) -> Iterator[Advance]:
    """Draw a progress bar if the console is a terminal.

    Args:
        console: where it is drawn.
        description: the text before the bar.
        total: how many items there are.
        transient: whether the bar disappears at the end.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=transient, disable=not console.is_terminal) as bar:
        task = bar.add_task(description, total=total)
        yield lambda items: bar.advance(task, items)
