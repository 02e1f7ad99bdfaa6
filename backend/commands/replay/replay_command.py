"""``camvo replay``: its options. Heavy modules are imported when it runs, which keeps the help fast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from backend.commands.replay import options
from backend.commands.replay.options import POLICIES, RUNS
from backend.commands.replay.table_options import TableOptions


@options.with_groups
def replay(
    *,
    votes: Annotated[
        Path,
        typer.Argument(metavar="VOTES.csv", help="CSV with text, truth and a column of labels per model."),
    ],
    table: TableOptions,
    policy: options.PolicyNames = ["camvo", "baseline", "majority"],  # noqa: B006 - Typer copies it
    delta: options.Deltas = "0.97",
    k_min: options.KMins = "3",
    alpha: Annotated[
        float, typer.Option(help="α: width of the confidence bound.", rich_help_panel=POLICIES)
    ] = 0.25,
    shuffles: Annotated[
        int, typer.Option(min=1, help="Random orders of the items.", rich_help_panel=RUNS)
    ] = 1,
    shared: options.SharedOptions,
) -> None:
    """Replay a table of votes and print each policy's cost and accuracy. Calls no model.

    Example: camvo replay votes.csv --prices small=0.1,large=5 --policy joint --policy majority
    """
    from rich.console import Console  # noqa: PLC0415 - keeps the help fast

    study = shared.study(policies=policy, deltas=delta, k_mins=k_min, alpha=alpha, shuffles=shuffles)
    table.replay(votes, study).run(Console(), Console(stderr=True))
