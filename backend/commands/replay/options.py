"""The options of a replay, as Typer shows them. Nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from backend.commands.shared.arguments import ScaleError

DATA, POLICIES, RUNS, _OUTPUT = "Data", "Policies", "Runs", "Output"
"""The groups of options in the help."""

PolicyParameters: TypeAlias = Mapping[str, object]
"""The parameters of the policies by name, with which :func:`with_policies` replaces the options made of them.

The values of ``delta``, ``k_min`` and ``agreement`` are lists, as text; that of ``worth`` may be by label.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedOptions:
    """The options of a replay that say nothing of its table. The help texts explain them."""

    lambda_l: Annotated[
        float, typer.Option("--lambda-l", help="λ_L: ridge of the linear models.", rich_help_panel=POLICIES)
    ] = 1.0
    window: Annotated[
        int,
        typer.Option(
            min=1,
            help="Items planned on the same state, as under concurrency; 1 as in the paper.",
            rich_help_panel=RUNS,
        ),
    ] = 1
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Also measure the scores that the server would have returned.",
            rich_help_panel=RUNS,
        ),
    ] = False
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the first shuffle; the others count up.", rich_help_panel=RUNS)
    ] = 0
    jobs: Annotated[int, typer.Option(min=1, help="Processes.", rich_help_panel=RUNS)] = 1
    json: Annotated[
        Path | None,
        typer.Option(
            "--json",
            help="Write all rows and means to this file (see docs/replay.md).",
            rich_help_panel=_OUTPUT,
        ),
    ] = None
    report: Annotated[
        Path | None, typer.Option(help="Draw a report into this folder.", rich_help_panel=_OUTPUT)
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """The options about the table. The help texts explain them."""

    prices: Annotated[
        str | None,
        typer.Option(
            help="$ per million input tokens: model=usd,… or a JSON file.",
            show_default="the JSON file beside VOTES.csv",
            rich_help_panel=DATA,
        ),
    ] = None
    embeddings: Annotated[
        Path | None,
        typer.Option(
            help="Contexts of the items (.npy).",
            show_default="embed the texts once and cache the result",
            rich_help_panel=DATA,
        ),
    ] = None
    context: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column with each item's language, subject or the like, on which skill may hang.",
            rich_help_panel=DATA,
        ),
    ] = None
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Replay only the first items of each shuffle.", rich_help_panel=DATA),
    ] = None
    human_labels: Annotated[
        str,
        typer.Option(
            "--human-labels",
            help="Share of the items that a human labels, and which: random:0.05, first:0.05, lowest:0.05.",
            rich_help_panel=DATA,
        ),
    ] = "0"
    confidences: Annotated[
        bool,
        typer.Option(
            help="Use the columns conf_<model>: how sure each model says it is.", rich_help_panel=DATA
        ),
    ] = True
    complete: Annotated[
        bool,
        typer.Option(
            "--complete",
            help="Ask the models that were left out about the items that a human labels.",
            rich_help_panel=RUNS,
        ),
    ] = False
    student: Annotated[
        bool | None,
        typer.Option(
            "--student/--no-student",
            help="Let a student that reads the texts vote too, free of charge.",
            show_default="beside joint, if the table has texts",
            rich_help_panel=DATA,
        ),
    ] = None
    ordered: Annotated[
        ScaleError | None,
        typer.Option(
            "--ordered",
            help="The labels are numbers on a scale; which error to minimise.",
            show_default=False,
            rich_help_panel=DATA,
        ),
    ] = None
    delimiter: Annotated[
        str, typer.Option(help="What separates the cells: a character, or tab.", rich_help_panel=DATA)
    ] = ","
    in_order: Annotated[
        bool,
        typer.Option(
            "--in-order",
            help="Replay the rows in the order of the table, to see drift.",
            rich_help_panel=RUNS,
        ),
    ] = False
