"""The options that say which table ``camvo replay`` reads, and how. Nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backend.commands.replay.options import DATA, RUNS

if TYPE_CHECKING:
    from backend.commands.replay.study import ReplayStudy
    from backend.commands.replay.table import TableReplay


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
            help="Let a student that reads the texts vote too, for nothing.",
            show_default="beside joint, if the table has texts",
            rich_help_panel=DATA,
        ),
    ] = None
    delimiter: Annotated[
        str, typer.Option(help="What separates the cells: a character, or tab.", rich_help_panel=DATA)
    ] = ","
    in_order: Annotated[
        bool,
        typer.Option("--in-order", help="Replay the rows as they stand, to see drift.", rich_help_panel=RUNS),
    ] = False

    def replay(self, votes: Path, study: ReplayStudy) -> TableReplay:
        """Return the replay of a table of votes that these options describe.

        Raises:
            ReplayError: ``--human-labels`` is not one of its forms.
        """
        from backend.commands.replay.inputs.orders import (  # noqa: PLC0415 - keeps the help fast
            parse_human_labels,
        )
        from backend.commands.replay.table import TableReplay  # noqa: PLC0415 - keeps the help fast

        return TableReplay(
            study=study,
            votes=votes,
            prices=self.prices,
            embeddings=self.embeddings,
            human_labels=parse_human_labels(self.human_labels),
            limit=self.limit,
            confidences=self.confidences,
            student=self.student,
            complete=self.complete,
            delimiter=self.delimiter,
            in_order=self.in_order,
            context=self.context,
        )
