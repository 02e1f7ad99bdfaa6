"""``camvo show``: its options. Heavy modules are imported when it runs, which keeps the help fast."""

from __future__ import annotations

from typing import Annotated

import typer

from backend.commands.shared import arguments
from backend.commands.shared.arguments import Config, LabelStudioUrl, options_of, refuse, require_one_source


def show(  # noqa: PLR0917 - a command's options
    task: Annotated[
        str,
        typer.Option(
            "--task", help="The task's number in Label Studio; of a file's row, its id or its line."
        ),
    ],
    source: arguments.SourceFile = None,
    project: arguments.ProjectInstead = None,
    label_config: arguments.LabelConfigFile = None,
    labels: arguments.Labels = None,
    text_column: arguments.TextColumn = None,
    config: Config = None,
    id_column: arguments.IdColumn = None,
    name: arguments.Name = None,
    label_studio: LabelStudioUrl = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show one task: the messages that models are sent, their answers, the votes, prices and seconds.

    Sends nothing to a model, and spends nothing. It prints the task's texts.

    Example: camvo show --project 1 --task 12 --config camvo.yaml
    """
    from backend.commands.show import show_task  # noqa: PLC0415 - keeps the help fast

    require_one_source(source, project)
    of_file = {"label_config": label_config, "labels": labels, "text_column": text_column}
    if source is None:
        refuse("is for files", "leave it out", **of_file, id_column=id_column, name=name)
        show_task(
            int(project or 0), task, options_of(None, None, None), config, label_studio, as_json=as_json
        )
        return
    refuse("is for projects", "give --project N in place of a file", label_studio=label_studio)
    options = options_of(**of_file, id_column=id_column, name=name)  # type: ignore[arg-type]
    show_task(source, task, options, config, None, as_json=as_json)
