"""``camvo ledger forget``: its options. Heavy modules are imported when it runs, to keep the help fast."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Annotated

import typer

from backend.commands.connect.options import Config


def forget(  # noqa: PLR0917 - a command's options
    annotator: Annotated[
        str | None, typer.Option(help="Whose labels: a number of Label Studio's, or a name as in files.")
    ] = None,
    project: Annotated[
        str | None, typer.Option(help="The labels of this project, by number or key.", show_default="all")
    ] = None,
    task: Annotated[
        int | None, typer.Option(min=0, help="The labels of this task. Needs --project.", show_default="all")
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"],
            help="Only labels that were last changed at this time or later, in UTC.",
        ),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Let these labels count again.")] = False,
    from_now_on: Annotated[
        bool, typer.Option("--from-now-on", help="Withdraw the labels that are still to come, too.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change, and stop.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    config: Config = None,
) -> None:
    """Withdraw the human labels of a person, a task or a project from everything that was learnt.

    Rewards, scores, examples and the guarantee are then as if nobody had given these labels. They stay in
    the ledger and come back with --undo. Labels given or changed after the command count, unless
    --from-now-on is given. The last command that covers a label decides. The server may run meanwhile.
    Repeat the command if it was interrupted.

    Nothing is erased. To erase labels and texts for good, delete the annotations or tasks in Label Studio.

    Example: camvo ledger forget --annotator 7 --since 2026-01-01
    """
    from rich.console import Console  # noqa: PLC0415 - keeps the help fast

    from backend.commands.environment import environment_with  # noqa: PLC0415 - keeps the help fast
    from backend.commands.ledger.forget import LabelsToForget, forget_labels  # noqa: PLC0415
    from backend.commands.teach.file_annotators import annotator_number  # noqa: PLC0415
    from backend.errors import ConfigError  # noqa: PLC0415

    number = annotator_number(annotator, "--annotator")
    wanted = LabelsToForget(number, project, task, since, undo=undo, from_now_on=from_now_on)

    def agreed(question: str) -> bool:
        if not yes and not sys.stdin.isatty():
            raise ConfigError("there is no terminal to ask", where="forget", fix="add --yes or --dry-run")
        return yes or typer.confirm(question)

    forget_labels(Console(), environment_with(config), wanted, agreed=None if dry_run else agreed)
