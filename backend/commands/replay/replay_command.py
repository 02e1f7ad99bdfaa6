"""``camvo replay``: its options. Heavy modules are imported when it runs, which keeps the help fast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from backend.commands.replay import options
from backend.commands.replay.options import DATA, POLICIES, RUNS


@options.with_shared_options
def replay(
    *,
    votes: Annotated[
        Path,
        typer.Argument(metavar="VOTES.csv", help="CSV with text, truth and a column of labels per model."),
    ],
    prices: Annotated[
        str | None,
        typer.Option(
            help="$ per million input tokens: model=usd,… or a JSON file.",
            show_default="the JSON file beside VOTES.csv",
            rich_help_panel=DATA,
        ),
    ] = None,
    embeddings: Annotated[
        Path | None,
        typer.Option(
            help="Contexts of the items (.npy).",
            show_default="embed the texts once and cache the result",
            rich_help_panel=DATA,
        ),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column with each item's language, subject or the like, on which skill may hang.",
            rich_help_panel=DATA,
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Replay only the first items of each shuffle.", rich_help_panel=DATA),
    ] = None,
    human_labels: Annotated[
        str,
        typer.Option(
            "--human-labels",
            help="Share of the items that a human labels, and which: random:0.05, first:0.05, lowest:0.05.",
            rich_help_panel=DATA,
        ),
    ] = "0",
    confidences: Annotated[
        bool,
        typer.Option(
            help="Use the columns conf_<model>: how sure each model says it is.", rich_help_panel=DATA
        ),
    ] = True,
    complete: Annotated[
        bool,
        typer.Option(
            "--complete",
            help="Ask the models that were left out about the items that a human labels.",
            rich_help_panel=RUNS,
        ),
    ] = False,
    student: Annotated[
        bool,
        typer.Option(
            "--student",
            help="Let a student that reads the texts vote too, for nothing.",
            rich_help_panel=DATA,
        ),
    ] = False,
    delimiter: Annotated[
        str, typer.Option(help="What separates the cells: a character, or tab.", rich_help_panel=DATA)
    ] = ",",
    in_order: Annotated[
        bool,
        typer.Option("--in-order", help="Replay the rows as they stand, to see drift.", rich_help_panel=RUNS),
    ] = False,
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

    Example: camvo replay votes.csv --prices small=0.1,large=5 --policy sequential --policy majority
    """
    from rich.console import Console  # noqa: PLC0415 - keeps the help fast

    from backend.commands.replay.inputs.orders import parse_human_labels  # noqa: PLC0415 - keeps the help fast
    from backend.commands.replay.table import TableReplay  # noqa: PLC0415 - keeps the help fast

    study = shared.study(policies=policy, deltas=delta, k_mins=k_min, alpha=alpha, shuffles=shuffles)
    TableReplay(
        study=study,
        votes=votes,
        prices=prices,
        embeddings=embeddings,
        human_labels=parse_human_labels(human_labels),
        limit=limit,
        confidences=confidences,
        student=student,
        complete=complete,
        delimiter=delimiter,
        in_order=in_order,
        context=context,
    ).run(Console(), Console(stderr=True))
