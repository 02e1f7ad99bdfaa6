"""``camvo label``: its options. Heavy modules are imported when it runs, which keeps the help fast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from backend.commands.connect.options import BackendUrl, Config, LabelStudioUrl
from backend.commands.label import arguments
from backend.commands.label.arguments import options_of, refuse
from backend.errors import ConfigError


def label(  # noqa: PLR0917 - a command's options
    source: arguments.SourceFile = None,
    project: arguments.ProjectInstead = None,
    label_config: arguments.LabelConfigFile = None,
    labels: arguments.Labels = None,
    text_column: arguments.TextColumn = None,
    out: arguments.Out = None,
    config: Config = None,
    id_column: arguments.IdColumn = None,
    name: arguments.Name = None,
    blind: arguments.Blind = 0,
    sample: arguments.Sample = 0,
    pilot: arguments.Pilot = 0,
    budget: arguments.Budget = None,
    yes: arguments.Yes = False,
    retry_failed: arguments.RetryFailed = False,
    server: Annotated[
        bool, typer.Option("--server", help="With --project: let the running server do it (camvo predict).")
    ] = False,
    label_studio: LabelStudioUrl = None,
    backend_url: BackendUrl = None,
) -> None:
    """Label a whole file, or a Label Studio project. Calls models, which costs money.

    It says first what it will cost, and asks before it spends more than a dollar. After Ctrl-C or a crash,
    the same command goes on where it stopped: nothing that was paid for is lost.

    Example: camvo label reviews.csv --labels Positive,Negative --text-column review --out labels.csv
    """
    require_one_source(source, project)
    spending = {"budget": budget, "yes": yes, "pilot": pilot, "retry_failed": retry_failed}
    of_file = {"label_config": label_config, "labels": labels, "text_column": text_column}
    if project is not None:
        others = {"out": out, "id_column": id_column, "name": name, "blind": blind, "sample": sample}
        refuse(
            "is for files",
            "leave it out: Label Studio has the tasks and the label config",
            **of_file,
            **others,
        )
        done = _label_project(project, config, label_studio, backend_url, server=server, **spending)
    else:
        refuse(
            "is for projects",
            "give --project N in place of a file",
            label_studio=label_studio,
            backend_url=backend_url,
            server=server,
        )
        if source is None or out is None:
            raise ConfigError("say where the labels go", where="--out", fix="give --out labels.csv")
        from backend.commands.label.file_run import label_file  # noqa: PLC0415 - keeps the help fast

        others = {"id_column": id_column, "name": name, "blind": blind, "sample": sample}
        options = options_of(**of_file, **others, **spending, blind_file=out.parent / "blind.csv")  # type: ignore[arg-type]
        done = label_file(source, out, options, config)
    if not done:
        raise typer.Exit(1)


def require_one_source(source: Path | None, project: int | None) -> None:
    """Check that a command has either a file or a project.

    Raises:
        ConfigError: it has neither, or both.
    """
    if (source is None) == (project is None):
        raise ConfigError("say what to label", where="SOURCE", fix="give a file, or --project N")


def _label_project(
    project: int,
    config: Path | None,
    label_studio: str | None,
    backend_url: str | None,
    *,
    server: bool,
    **spending: Any,
) -> bool:
    """Label a project; returns whether no task is left."""
    if server:
        refuse("is set at the server", "leave it out", config=config, budget=spending["budget"])
        refuse("is for runs without --server", "leave it out", pilot=spending["pilot"], yes=spending["yes"])
        from backend.commands.predict.predict_command import predict  # noqa: PLC0415 - keeps the help fast

        retry = spending["retry_failed"]
        predict(project, label_studio, backend_url, failed=retry, again=retry)
        return True
    refuse("is for files and for camvo quote", "leave it out", pilot=spending.pop("pilot"))
    from backend.commands.label.options import LabelOptions  # noqa: PLC0415 - keeps the help fast
    from backend.commands.label.project_run import label_project  # noqa: PLC0415 - keeps the help fast

    return label_project(project, config, label_studio, LabelOptions(**spending))
