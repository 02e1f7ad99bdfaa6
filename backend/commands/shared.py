"""The progress of long commands: a bar in a terminal, a line now and then in a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text
from sqlalchemy import Connection

from backend.errors import ConfigError
from backend.ledger import Ledger, projects
from backend.ledger.projects import Project
from backend.settings import Environment

_USUAL = "camvo.yaml"


def environment_with(config: Path | None) -> Environment:
    """Return the environment, with ``--config`` instead of ``CAMVO_CONFIG`` if it is given.

    A ``camvo.yaml`` in the folder is not used unasked; a line on stderr says so.
    """
    environment = Environment()
    if config is not None:
        return environment.model_copy(update={"config": config})
    if environment.config is None and Path(_USUAL).exists():
        _say_that_it_is_not_used()
    return environment


@cache
def _say_that_it_is_not_used() -> None:
    text = f"camvo: {_USUAL} lies here and is not used: give --config {_USUAL}, or set CAMVO_CONFIG"
    Console(stderr=True).print(text, highlight=False, soft_wrap=True)


_SIGNS = {True: "[green]✓[/]", False: "[red]✗[/]", None: "[yellow]–[/]"}


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of a command's output.

    Attributes:
        name: the part that it is about.
        text: its state, and what to do if it fails.
        holds: whether it works; ``None`` if it could not be tried, or works in part.
    """

    name: str
    text: str
    holds: bool | None = True


def print_fact(console: Console, fact: Fact) -> None:
    """Print a fact with its sign."""
    from rich.markup import escape  # noqa: PLC0415 - keeps the help fast

    line = f"{_SIGNS[fact.holds]} {escape(fact.name):<14} {escape(fact.text)}"
    console.print(line, highlight=False, soft_wrap=True)


Advance: TypeAlias = Callable[[int], object]
"""Called with the number of items that were finished since the last call."""

Note: TypeAlias = Callable[[int, int], str]
"""Returns a text to show, given how many items are finished and how many there are."""

EVERY = 15.0
"""Seconds between two lines where no bar can be drawn."""


@contextmanager
def progress_bar(
    console: Console,
    description: str,
    total: int,
    *,
    transient: bool = False,
    note: Note = lambda done, total: "",
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Advance]:
    """Draw a progress bar if the console is a terminal; otherwise print a line every 15 seconds.

    Args:
        console: where it is drawn.
        description: the text before the bar.
        total: how many items there are.
        transient: whether the bar disappears at the end.
        note: what to show beside the numbers.
        clock: the time in seconds, for the lines.
    """
    if not (console.is_terminal or console.is_jupyter):
        yield _Lines(console, description, total, clock, note).advance
        return
    noted = TextColumn("{task.fields[note]}")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _TimeLeft(), noted)
    with Progress(*columns, console=console, transient=transient) as bar:
        task = bar.add_task(description, total=total, note="")

        def advance(items: int) -> None:
            bar.advance(task, items)
            bar.update(task, note=note(int(bar.tasks[0].completed), total))

        yield advance


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


class _Lines:
    """Progress as lines such as ``replaying: 3,000 of 14,014 (21%), about 60 s left``."""

    def __init__(
        self, console: Console, description: str, total: int, clock: Callable[[], float], note: Note
    ) -> None:
        self._console, self._description, self._total, self._clock = console, description, total, clock
        self._note = note
        self._done = 0
        self._started = self._printed = clock()

    def advance(self, items: int) -> None:
        self._done += items
        now = self._clock()
        if now - self._printed < EVERY or not self._done:
            return
        self._printed = now
        left = (now - self._started) * max(self._total - self._done, 0) / self._done
        noted = self._note(self._done, self._total)
        self._console.print(
            f"{self._description}: {self._done:,} of {self._total:,}"
            f" ({self._done / max(self._total, 1):.0%}), about {left:,.0f} s left"
            + (f", {noted}" if noted else ""),
            highlight=False,
            soft_wrap=True,
        )


@contextmanager
def existing_ledger(environment: Environment) -> Iterator[Ledger]:
    """Open the server's ledger, and close it at the end. A SQLite file that is not there is not created.

    Raises:
        ConfigError: there is no ledger at ``CAMVO_DATABASE_URL``.
    """
    ledger = Ledger(environment.database_url)
    try:
        if not ledger.exists():
            raise ConfigError(
                f"there is no ledger at {ledger.place}",
                where="CAMVO_DATABASE_URL",
                fix="run the command in the server's folder, set the variable to its value, or start "
                "camvo serve first",
            )
        yield ledger
    finally:
        ledger.close()


def stored_project(connection: Connection, project: str) -> Project:
    """The project of the ledger with this key, or with this number in Label Studio.

    Several projects have the same number if Label Studio was set up anew; the one updated last is returned.

    Raises:
        ConfigError: the ledger has no such project.
    """
    matching = [
        stored
        for stored in projects.list_all(connection)
        if project in {stored.key, stored.key.partition(".")[0]}
    ]
    if not matching:
        raise ConfigError(
            f"the ledger has no project {project!r}",
            where="--project",
            fix="get predictions for it first, and set CAMVO_DATABASE_URL to the server's value",
        )
    return max(matching, key=lambda stored: stored.updated_at)
