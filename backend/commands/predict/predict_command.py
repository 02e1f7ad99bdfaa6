"""``camvo predict``: its options. Heavy modules are imported when it runs, which keeps the help fast."""

from __future__ import annotations

from typing import Annotated

import typer

from backend.commands.shared import arguments
from backend.commands.shared.arguments import BackendUrl, LabelStudioUrl, ProjectNumber
from backend.errors import ConfigError


def predict(  # noqa: PLR0917 - a command's options
    project: ProjectNumber,
    budget: arguments.Budget = None,
    yes: arguments.Yes = False,
    pilot: arguments.Pilot = 0,
    label_studio: LabelStudioUrl = None,
    backend_url: BackendUrl = None,
    refresh: Annotated[
        bool,
        typer.Option(
            "--refresh/--only-missing",
            help="Also count kept votes again and replace predictions that have changed, or only add missing"
            " ones.",
        ),
    ] = False,
    below: Annotated[
        float,
        typer.Option(
            "--below",
            min=0.0,
            max=1.0,
            help="With --refresh: only predictions with a lower score.",
        ),
    ] = 1.0,
    recount: Annotated[
        bool,
        typer.Option(
            "--recount",
            help="Only count kept votes again by what is known now, and replace what changed. Costs nothing.",
        ),
    ] = False,
    ask_more: Annotated[
        float | None,
        typer.Option(
            "--ask-more",
            min=0,
            help="With --recount or --refresh: then ask models that were left out, where that is worth most,"
            " for at most this many dollars over all runs.",
        ),
    ] = None,
    failed: Annotated[
        bool,
        typer.Option("--failed", help="Ask only about tasks that ended without a prediction before."),
    ] = False,
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed",
            "--again",
            help="Ask again about the tasks that failed, and no others; models get another attempt.",
        ),
    ] = False,
    annotated: Annotated[
        bool,
        typer.Option("--annotated", help="Also ask about tasks that people have annotated already."),
    ] = False,
    no_wait: arguments.NoWait = False,
    batch: Annotated[
        int, typer.Option("--at-once", min=1, max=500, help="Tasks in one request to the server.")
    ] = 50,
) -> None:
    """Store the server's predictions for a whole Label Studio project. Repeat it after an interruption.

    The running server calls the models, which costs money: the command says first how much, and asks before
    more than a dollar is spent. Tasks with annotations are left out.
    With --recount alone no model is called. Needs LABEL_STUDIO_API_KEY.
    Exit codes: 0 every task has a prediction and no vote is missing; 1 tasks have no prediction; 2 wrong
    options, or no consent to the cost; 3 votes are missing that may still come; 4 models were rejected or
    gave no or hardly any votes; 130 after Ctrl-C.

    Example: camvo predict --project 1 --budget 20
    """
    from backend.commands.predict.predict_run import predict_project  # noqa: PLC0415 - keeps the help fast
    from backend.commands.shared.options import LabelOptions  # noqa: PLC0415 - keeps the help fast
    from backend.commands.shared.setup import interruptible  # noqa: PLC0415 - keeps the help fast

    if ask_more is not None and not (recount or refresh):
        raise ConfigError("is for counting again", where="--ask-more", fix="add --recount, or --refresh")
    if below < 1.0 and not refresh:
        raise ConfigError("is for predictions that are there", where="--below", fix="add --refresh")
    if recount:
        fix = "leave it out, or give --refresh"
        arguments.refuse("is for asking models", fix, budget=budget, yes=yes, pilot=pilot)
    options = LabelOptions(
        budget=budget,
        yes=yes,
        pilot=pilot,
        retry_failed=retry_failed,
        recount=recount,
        ask_more=ask_more,
        no_wait=no_wait,
        below=below,
    )
    with interruptible():
        code = predict_project(
            project,
            options,
            label_studio,
            backend_url,
            refresh=refresh,
            failed=failed,
            annotated=annotated,
            at_once=batch,
        )
    raise typer.Exit(code)
