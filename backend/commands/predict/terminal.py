"""The output of ``camvo predict``: a bar with dollars, the totals, and what happens after Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console

from backend.commands.predict.prediction_run import PredictionRun
from backend.commands.predict.tally import Tally
from backend.commands.progress import progress_bar
from backend.server.status.formats import dollars

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""


def run_on_terminal(
    console: Console, run: PredictionRun, tasks: int, clock: Callable[[], float] = time.monotonic
) -> int:
    """Go through a project, show progress and totals, and return the exit code.

    Args:
        console: where it is shown.
        run: the run.
        tasks: how many tasks it goes through.
        clock: the time in seconds.

    Returns:
        0 if every task has a prediction or is blind, 1 if tasks are left, :data:`INTERRUPTED` after Ctrl-C.

    Raises:
        LabelStudioError: Label Studio refused, or cannot be reached; the totals are printed before.
        BackendError: the server refused, or cannot be reached; the totals are printed before.
    """
    tally, began = run.tally, clock()

    def print_totals() -> None:
        minutes, seconds = divmod(round(clock() - began), 60)
        took = f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
        line = f"{tally.summary()}\n{dollars(tally.spent_usd)} spent in {took}"
        console.print(line, highlight=False, soft_wrap=True)

    try:
        with progress_bar(
            console, "tasks", tasks, note=lambda done, total: _money(tally, done, total)
        ) as bar:
            run(bar)
    except KeyboardInterrupt:
        print_totals()
        console.print(
            f"Stopped. What is stored stays. The server finishes the tasks that it works on, {run.batch} at"
            " most, and keeps their answers. Run the same command again: it goes on with what is missing,"
            " and pays for nothing twice.",
            highlight=False,
            soft_wrap=True,
        )
        return INTERRUPTED
    except Exception:
        print_totals()
        raise
    print_totals()
    return 1 if tally.left else 0


def _money(tally: Tally, done: int, total: int) -> str:
    """What was spent, and what the run costs in all if the other tasks cost as much as those so far."""
    asked = done - tally.unchanged
    if asked <= 0:
        return ""
    expected = tally.spent_usd / asked * (total - tally.unchanged)
    return f"{dollars(tally.spent_usd)} spent, about {dollars(expected)} in all"
