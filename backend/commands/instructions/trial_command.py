"""``camvo try``: its options. Heavy modules are imported when it runs, which keeps the help fast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from backend.commands.shared import arguments
from backend.commands.shared.arguments import Config, LabelStudioUrl, refuse, source_and_options
from backend.errors import ConfigError


def try_text(  # noqa: PLR0917 - a command's options
    source: arguments.SourceFile = None,
    project: arguments.ProjectInstead = None,
    instructions: Annotated[
        Path | None,
        typer.Option(
            "--instructions", help="The new instructions: a plain text, or HTML if it is named *.html."
        ),
    ] = None,
    new_label_config: Annotated[
        Path | None,
        typer.Option("--new-label-config", help="The new label config: other labels, hints or instructions."),
    ] = None,
    sample: Annotated[
        int, typer.Option("--sample", min=1, help="Try it on this number of tasks, most of them labelled.")
    ] = 50,
    out: Annotated[
        Path, typer.Option("--out", metavar="PATH", help="Where the page goes, an HTML file.")
    ] = Path("try.html"),
    label_config: arguments.LabelConfigFile = None,
    labels: arguments.Labels = None,
    text_column: arguments.TextColumn = None,
    config: Config = None,
    id_column: arguments.IdColumn = None,
    name: arguments.Name = None,
    budget: arguments.Budget = None,
    yes: arguments.Yes = False,
    label_studio: LabelStudioUrl = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare new instructions with the present ones, side by side, before anything changes.

    It asks every model about a sample of tasks with both texts, once its quote is agreed to. Answers are
    kept: trying again costs nothing, and they count once the text is adopted. With --project, --label-config
    is the same as --new-label-config.

    Example: camvo try --project 1 --instructions new.txt --sample 50
    """
    from backend.commands.instructions.trial import TrialOptions, run_trial  # noqa: PLC0415 - keeps the help fast

    new = new_label_config
    if source is None:  # the project has a label config, so this can only be the new one
        refuse("is given twice", "leave it out", label_config=new and label_config)
        new, label_config = new or label_config, None
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
        {"label_studio": label_studio},
        budget=budget,
        yes=yes,
    )
    if instructions is None and new is None:
        raise ConfigError(
            "say what to try",
            where="--instructions",
            fix="give a file with new instructions, or a label config",
        )
    trial = TrialOptions(instructions, new, sample, out)
    run_trial(chosen, trial, options, config, label_studio, as_json=as_json)
