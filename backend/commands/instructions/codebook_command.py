"""``camvo codebook``: its options. Heavy modules are imported when it runs, which keeps the help fast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from backend.commands.shared import arguments
from backend.commands.shared.arguments import Config, LabelStudioUrl, refuse, source_and_options


def codebook(  # noqa: PLR0917 - a command's options
    source: arguments.SourceFile = None,
    project: arguments.ProjectInstead = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="PATH", help="Where the codebook goes, as Markdown.")
    ] = Path("codebook.md"),
    examples: Annotated[
        int, typer.Option("--examples", min=0, help="The most examples of a label, and of a confusion.")
    ] = 3,
    quote_blind: Annotated[
        bool,
        typer.Option("--quote-blind", help="Also quote blind tasks that people labelled; not for models."),
    ] = False,
    into_project: Annotated[
        bool,
        typer.Option(
            "--into-project",
            help="Also write it below the project's instructions in Label Studio, for annotators alone.",
        ),
    ] = False,
    label_config: arguments.LabelConfigFile = None,
    labels: arguments.Labels = None,
    text_column: arguments.TextColumn = None,
    config: Config = None,
    id_column: arguments.IdColumn = None,
    name: arguments.Name = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="With --into-project: change the project's instructions.")
    ] = False,
    label_studio: LabelStudioUrl = None,
) -> None:
    """Write what each label means: its hint, examples that people confirmed, and what it is taken for.

    Reads the ledger and the tasks; asks no model and spends nothing. --into-project shows what it replaces
    in Label Studio, and changes it with --yes only. Models do not read that part, so nothing is paid again.

    Example: camvo codebook --project 1 --out codebook.md
    """
    from backend.commands.instructions.codebook import CodebookOptions, run_codebook  # noqa: PLC0415

    chosen, options = source_and_options(
        source,
        project,
        {
            "label_config": label_config,
            "labels": labels,
            "text_column": text_column,
            "id_column": id_column,
            "name": name,
        },
        {"into_project": into_project, "label_studio": label_studio},
    )
    refuse("needs --into-project", "leave it out", yes=yes and not into_project)
    refuse(
        "would show annotators the labels of blind tasks",
        "leave it out",
        quote_blind=quote_blind and into_project,
    )
    wanted = CodebookOptions(out, examples, quote_blind, into_project, yes)
    run_codebook(chosen, wanted, options, config, label_studio)
