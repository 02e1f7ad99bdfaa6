"""``camvo refine``: its options. Heavy modules are imported when it runs, which keeps the help fast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from backend.commands.shared import arguments
from backend.commands.shared.arguments import Config, LabelStudioUrl, refuse, source_and_options


def refine(  # noqa: PLR0917 - a command's options
    source: arguments.SourceFile = None,
    project: arguments.ProjectInstead = None,
    by: Annotated[
        str | None,
        typer.Option("--by", help="The model of the pool that proposes.", show_default="the dearest one"),
    ] = None,
    sample: Annotated[
        int, typer.Option("--sample", min=20, help="Judge on at most this number of labelled tasks.")
    ] = 300,
    out: Annotated[
        Path, typer.Option("--out", metavar="PATH", help="The folder for the texts and their pages.")
    ] = Path("refine"),
    adopt: Annotated[
        Path | None,
        typer.Option("--adopt", metavar="PATH", help="Ask nobody: write this text into the project."),
    ] = None,
    take_back: Annotated[
        bool,
        typer.Option("--take-back", help="Ask nobody: write an earlier text of the project into it."),
    ] = False,
    text: Annotated[
        str | None,
        typer.Option("--text", metavar="ID", help="With --take-back: not the text before, but this one."),
    ] = None,
    label_config: arguments.LabelConfigFile = None,
    labels: arguments.Labels = None,
    text_column: arguments.TextColumn = None,
    config: Config = None,
    id_column: arguments.IdColumn = None,
    name: arguments.Name = None,
    budget: arguments.Budget = None,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Spend what the quote says, or change the project's text."),
    ] = False,
    label_studio: LabelStudioUrl = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Let a model propose changes of the instructions, and judge them on labelled tasks that it never saw.

    Spends what its quote says at most, and changes nothing: one proposal with --adopt becomes the project's
    text, if you say so. At most three changes race with the present text; worse ones are dropped early.

    Example: camvo refine --project 1 --by opus --budget 5
    """
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
        {"adopt": adopt, "take_back": take_back, "text": text, "label_studio": label_studio},
        budget=budget,
        yes=yes,
    )
    refuse("is another text than that of --adopt", "leave one out", take_back=take_back and adopt)
    refuse("goes with --take-back", "add it", text=None if take_back else text)
    if adopt is not None or take_back:
        from rich.console import Console  # noqa: PLC0415 - keeps the help fast

        from backend.commands.instructions.adopting import adopt_text  # noqa: PLC0415 - the same

        refuse("asks nobody with --adopt or --take-back", "leave it out", by=by, budget=budget, json=as_json)
        adopt_text(int(project or 0), adopt, config, label_studio, Console(), yes=yes, told=text)
        return
    from backend.commands.instructions.refine import RefineOptions, run_refine  # noqa: PLC0415 - the same

    wanted = RefineOptions(by, sample, out)
    run_refine(chosen, wanted, options, config, label_studio, as_json=as_json)
