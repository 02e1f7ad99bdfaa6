"""What ``camvo predict`` shows: a bar while it runs, on a terminal, and what it did."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from backend.commands.connect.predict import Advance, Tally


@contextmanager
def bar(console: Console, total: int) -> Iterator[Advance]:
    """A bar that is told how many tasks are done; nothing where the output is no terminal."""
    columns = (TextColumn("tasks"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        row = progress.add_task("tasks", total=total)
        yield lambda tasks: progress.advance(row, tasks)


def summary(tally: Tally) -> str:
    """One line with what was done, and one for each thing that somebody may want to do something about."""
    lines = [
        f"{tally.created} predictions stored, {tally.replaced} replaced, {tally.kept} tasks left as they were"
    ]
    if tally.undecided:
        lines.append(
            f"{tally.undecided} tasks have none: the server's log says why (no text, no budget, kept for an "
            "audit, or slow models: run it again)"
        )
    if tally.too_large:
        lines.append(f"{tally.too_large} tasks are too long: raise the server's CAMVO_MAX_BODY_MB")
    if tally.refused:
        lines.append(f"{tally.refused} were refused by Label Studio: they do not fit its label config")
    return "\n".join(lines)
