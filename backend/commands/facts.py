"""Facts: what a command has found out or done, one line each, with a sign for how it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

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
