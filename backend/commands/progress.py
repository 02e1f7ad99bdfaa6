"""The progress of long commands: a bar in a terminal, a line now and then in a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Advance: TypeAlias = Callable[[int], object]
"""Called with the number of items that were finished since the last call."""

EVERY = 15.0
"""Seconds between two lines where no bar can be drawn."""


@contextmanager
def progress_bar(
    console: Console,
    description: str,
    total: int,
    *,
    transient: bool = False,
    note: Callable[[], str] = lambda: "",
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Advance]:
    """Draw a progress bar if the console is a terminal; otherwise print a line every 15 seconds.

    Args:
        console: where it is drawn.
        description: the text before the bar.
        total: how many items there are.
        transient: whether the bar disappears at the end.
        note: what else to say at each step, such as the money spent.
        clock: the time in seconds, for the lines.
    """
    if not (console.is_terminal or console.is_jupyter):
        yield _Lines(console, description, total, note, clock).advance
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=console, transient=transient) as bar:
        task = bar.add_task(description, total=total, note=note())
        yield lambda items: bar.update(task, advance=items, note=note())


class _Lines:
    """Progress as lines such as ``replaying: 3,000 of 14,014 (21%), about 60 s left``."""

    def __init__(
        self,
        console: Console,
        description: str,
        total: int,
        note: Callable[[], str],
        clock: Callable[[], float],
    ) -> None:
        self._console, self._description, self._total = console, description, total
        self._note, self._clock = note, clock
        self._done = 0
        self._started = self._printed = clock()

    def advance(self, items: int) -> None:
        self._done += items
        now = self._clock()
        if now - self._printed < EVERY or not self._done:
            return
        self._printed = now
        left = (now - self._started) * max(self._total - self._done, 0) / self._done
        note = self._note()
        self._console.print(
            f"{self._description}: {self._done:,} of {self._total:,}"
            f" ({self._done / max(self._total, 1):.0%}), about {left:,.0f} s left{note and f', {note}'}",
            highlight=False,
            soft_wrap=True,
        )
