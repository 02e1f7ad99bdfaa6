"""What commands print: facts with their signs, tables, and the progress of long work."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from backend.server.status.missing import Ending

_SIGNS = {True: "[green]✓[/]", False: "[red]✗[/]", None: "[yellow]–[/]"}


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of a command's output; ``holds`` is ``None`` if it could not be tried, or works in part."""

    name: str
    text: str
    holds: bool | None = True


def print_fact(console: Console, fact: Fact) -> None:
    """Print a fact with its sign."""
    from rich.markup import escape  # noqa: PLC0415 - keeps the help fast

    say(console, f"{_SIGNS[fact.holds]} {escape(fact.name):<14} {escape(fact.text)}", markup=True)


def say(console: Console, line: object, *, markup: bool = False) -> None:
    """Print a line as it is: brackets too unless it is markup, and broken by nobody but the terminal."""
    console.print(line, highlight=False, soft_wrap=True, markup=markup)


Advance: TypeAlias = Callable[[int], object]
"""Called with the number of items that were finished since the last call."""

_Note: TypeAlias = Callable[[int, int], str]
"""Returns a text to show, given how many items are finished and how many there are."""

_EVERY = 15.0
"""Seconds between two lines where no bar can be drawn."""

_LOOK, _EVERY_WAIT = 0.5, 60.0
"""Seconds between two looks at what is waited for, and between two lines about the same."""


@contextmanager
def progress_bar(
    console: Console,
    description: str,
    total: int,
    *,
    transient: bool = False,
    note: _Note = lambda done, total: "",
    waiting: Callable[[], str] = str,
) -> Iterator[Advance]:
    """Draw a progress bar if the console is a terminal; otherwise print a line every 15 seconds.

    ``waiting`` returns what the work waits for, or nothing; it is shown although nothing is finished.
    """
    if not (console.is_terminal or console.is_jupyter):
        with _waits_as_lines(console, waiting):
            yield _as_lines(console, description, total, note)
        return
    noted = TextColumn("{task.fields[note]}")
    columns = (
        *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _TimeLeft(), noted),
        _Waiting(waiting),
    )
    with Progress(*columns, console=console, transient=transient) as bar:
        task = bar.add_task(description, total=total, note="")

        def advance(items: int) -> None:
            bar.advance(task, items)
            bar.update(task, note=note(int(bar.tasks[0].completed), total))

        yield advance


@contextmanager
def _waits_as_lines(console: Console, waiting: Callable[[], str]) -> Iterator[None]:
    """Print what is waited for when it begins, and then every minute."""
    from backend.threads import repeatedly  # noqa: PLC0415 - keeps the help fast

    printed = -math.inf

    def look() -> None:
        nonlocal printed
        if not (text := waiting()):
            # A wait that comes and goes is not printed each time that it comes.
            printed = min(printed, time.monotonic() - _EVERY_WAIT + _EVERY)
        elif time.monotonic() - printed >= _EVERY_WAIT:
            printed = time.monotonic()
            say(console, text)

    with nullcontext() if waiting is str else repeatedly(look, _LOOK, "camvo-waiting"):
        yield


class _Waiting(ProgressColumn):
    """What the work waits for now."""

    max_refresh = _LOOK

    def __init__(self, waiting: Callable[[], str]) -> None:
        super().__init__()
        self._waiting = waiting

    def render(self, task: Task) -> Text:
        return Text("" if task.finished else self._waiting(), style="yellow")


class _TimeLeft(ProgressColumn):
    """The time left, from the first item on."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        if task.finished or not task.completed or task.elapsed is None:
            return Text("" if task.finished else "-:--:--", style="progress.remaining")
        mean = task.elapsed / task.completed * (task.remaining or 0.0)
        seconds = round(mean if task.time_remaining is None else task.time_remaining)
        minutes, hours = seconds // 60 % 60, seconds // 3600
        return Text(f"{hours}:{minutes:02}:{seconds % 60:02} left", style="progress.remaining")


def _as_lines(console: Console, description: str, total: int, note: _Note) -> Advance:
    """Progress as lines such as ``replaying: 3,000 of 14,014 (21%), about 60 s left``."""
    done, started = 0, time.monotonic()
    printed = started

    def advance(items: int) -> None:
        nonlocal done, printed
        done, now = done + items, time.monotonic()
        if now - printed < _EVERY or not done:
            return
        printed = now
        left, noted = (now - started) * max(total - done, 0) / done, note(done, total)
        line = f"{description}: {done:,} of {total:,} ({done / max(total, 1):.0%}), about {left:,.0f} s left"
        say(console, line + (f", {noted}" if noted else ""))

    return advance


_TELLING = 50
"""Finished tasks from which on their price says what the others cost."""


def to_come(usd: float, asked: int, left: int) -> str:
    """Say what is to come if the tasks left cost what those asked about did; empty while too few were asked.

    At first most of the money was spent on tasks that are under way.
    """
    if not left or asked < min(_TELLING, left):
        return ""
    return f", about ${usd / asked * left:.2f} to come"


def print_ending(console: Console, ending: Ending) -> None:
    """Print why the exit code is not 0, as the last line."""
    for line in ending.lines():
        say(console, line)


def plain_table(first: str, *others: str) -> Table:
    """A table without lines, whose first column is text and whose others are numbers."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", title=" ")
    table.add_column(first, overflow="fold", max_width=24)
    for name in others:
        table.add_column(name, justify="right")
    return table
