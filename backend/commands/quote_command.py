"""``camvo quote``: its options. Heavy modules are imported when it runs, which keeps the help fast."""

from __future__ import annotations

from typing import Annotated

import typer

from backend.commands.shared import arguments
from backend.commands.shared.arguments import Config, LabelStudioUrl, source_and_options


def quote(  # noqa: PLR0917 - a command's options
    source: arguments.SourceFile = None,
    project: arguments.ProjectInstead = None,
    label_config: arguments.LabelConfigFile = None,
    labels: arguments.Labels = None,
    text_column: arguments.TextColumn = None,
    config: Config = None,
    id_column: arguments.IdColumn = None,
    name: arguments.Name = None,
    pilot: arguments.Pilot = 0,
    batch: arguments.Batch = False,
    budget: arguments.Budget = None,
    yes: arguments.Yes = False,
    below: arguments.Below = 0.0,
    target: Annotated[
        float | None,
        typer.Option(
            "--target",
            min=0.01,
            max=0.999,
            help="Also say which mix of models and people makes this share of all labels right at the lowest"
            " price.",
        ),
    ] = None,
    label_studio: LabelStudioUrl = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what labelling a file or a project will cost, and how long it takes.

    It counts the tokens of every task for every model, and spends nothing without --pilot. --pilot asks every
    model about some random tasks for real. They are part of the job: camvo label does not ask about them
    again.

    Example: camvo quote reviews.csv --labels Positive,Negative --text-column review --pilot 200
    """
    from backend.commands.quote import print_quote_of  # noqa: PLC0415 - keeps the help fast

    of_file = {"label_config": label_config, "labels": labels, "text_column": text_column}
    spending = {"pilot": pilot, "batch": batch, "budget": budget, "yes": yes, "below": below}
    chosen, options = source_and_options(
        source,
        project,
        {**of_file, "id_column": id_column, "name": name},
        {"label_studio": label_studio},
        **spending,
    )
    print_quote_of(chosen, options, config, label_studio, as_json=as_json, target=target)
