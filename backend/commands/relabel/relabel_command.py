"""``camvo relabel``: its options. Heavy modules are imported when it runs, which keeps the help fast."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from backend.commands.shared.arguments import Config, LabelStudioUrl, Name, ProjectInstead, SourceFile
from backend.errors import ConfigError


def relabel(  # noqa: PLR0917 - a command's options
    source: SourceFile = None,
    project: ProjectInstead = None,
    rename: Annotated[
        list[str] | None, typer.Option("--rename", metavar="OLD=NEW", help="A label has a new name.")
    ] = None,
    merge: Annotated[
        list[str] | None, typer.Option("--merge", metavar="A,B=C", help="Labels become one.")
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option("--drop", metavar="LABEL", help="A label is given up; its tasks are asked about again."),
    ] = None,
    split: Annotated[
        list[str] | None,
        typer.Option(
            "--split",
            metavar="OLD=A,B",
            help="A label becomes several; its tasks are asked again.",
        ),
    ] = None,
    add: Annotated[
        list[str] | None,
        typer.Option(
            "--add",
            metavar="NEW=A,B",
            help="A label is new; tasks of A and B may get it.",
        ),
    ] = None,
    below: Annotated[
        float | None,
        typer.Option("--below", min=0.0, max=1.0, help="Also ask again about tasks with a lower score."),
    ] = None,
    control: Annotated[
        str | None, typer.Option("--control", help="The question, if several have the label.")
    ] = None,
    label_config: Annotated[
        Path | None,
        typer.Option(
            "--label-config",
            help="The label config afterwards, an XML file.",
            show_default="Label Studio's if it has changed already, else the present one with these changes",
        ),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Take the latest change of labels back.")] = False,
    anew: Annotated[
        bool, typer.Option("--anew", help="The labels in Label Studio now are others: ask about all again.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan, and stop.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    name: Name = None,
    label_studio: LabelStudioUrl = None,
    config: Config = None,
) -> None:
    """Rename, merge, drop, split or add labels; only tasks that this concerns are asked about again.

    Prints its plan first, and loses no human label. In a project of Label Studio, the label config and the
    annotations change too.

    Example: camvo relabel --project 1 --rename bad=negative --merge good,great=positive
    """
    from backend.commands.relabel.label_changes import LabelChanges  # noqa: PLC0415 - keeps the help fast
    from backend.commands.relabel.run import run_relabel  # noqa: PLC0415 - the same

    if (source is None and name is None) == (project is None):
        raise ConfigError("say of what", where="SOURCE", fix="give a file or --name, or --project N")
    wanted = LabelChanges(
        rename or (),
        merge or (),
        drop or (),
        split or (),
        add or (),
        below,
        control,
        label_config,
        undo,
        anew,
    )
    changes = rename or merge or drop or split or add or below is not None
    if (undo or anew) and (changes or (undo and (anew or label_config))):
        raise ConfigError("stands alone", where="--undo" if undo else "--anew", fix="leave the others out")
    if anew and project is None:
        raise ConfigError(
            "is for projects", where="--anew", fix="label the file under another --name to begin anew"
        )

    def agreed(question: str) -> bool:
        if not yes and not sys.stdin.isatty():
            raise ConfigError("there is no terminal to ask", where="relabel", fix="add --yes or --dry-run")
        return yes or typer.confirm(question)

    run_relabel(
        source or (Path("name") if project is None else project),
        wanted,
        name=name,
        config=config,
        label_studio=label_studio,
        agreed=None if dry_run else agreed,
    )
