"""``camvo predict``: its options. Heavy modules are imported when it runs, which keeps the help fast."""

from __future__ import annotations

from typing import Annotated

import typer

from backend.commands.connect.options import BackendUrl, LabelStudioUrl, ProjectNumber
from backend.errors import ConfigError


def predict(  # noqa: PLR0917 - a command's options
    project: ProjectNumber,
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
            " for at most so many dollars over all runs.",
        ),
    ] = None,
    failed: Annotated[
        bool,
        typer.Option("--failed", help="Ask only about tasks that ended without a prediction before."),
    ] = False,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="As --failed, and with another attempt at tasks whose attempts are used up."
        ),
    ] = False,
    batch: Annotated[
        int, typer.Option("--at-once", min=1, max=500, help="Tasks in one request to the server.")
    ] = 50,
) -> None:
    """Store the server's predictions for a whole Label Studio project. Repeat it after an interruption.

    The server calls the models, which costs money; with --recount alone it calls none. Needs
    LABEL_STUDIO_API_KEY.
    The exit code is 1 if tasks are left without a prediction, and 130 after Ctrl-C.

    Example: camvo predict --project 1 --label-studio http://localhost:8080
    """
    from rich.console import Console  # noqa: PLC0415 - keeps the help fast

    from backend.commands.connect import addresses  # noqa: PLC0415 - keeps the help fast
    from backend.commands.connect.backend_client import BackendClient  # noqa: PLC0415
    from backend.commands.environment import environment_with  # noqa: PLC0415
    from backend.commands.predict.ask_more_run import AskMoreRun  # noqa: PLC0415
    from backend.commands.predict.prediction_run import PredictionRun  # noqa: PLC0415
    from backend.commands.predict.recount_run import RecountRun  # noqa: PLC0415
    from backend.commands.predict.terminal import INTERRUPTED, run_on_terminal  # noqa: PLC0415
    from backend.label_studio import webhooks  # noqa: PLC0415

    if ask_more is not None and not (recount or refresh):
        raise ConfigError("is for counting again", where="--ask-more", fix="add --recount, or --refresh")
    console, environment = Console(), environment_with(None)
    backend = BackendClient(addresses.backend_url(backend_url, environment), environment, again=again)
    try:
        client = addresses.label_studio_client(label_studio, environment)
        payload = client.project(project)
        version = backend.model_version()
        key, label_config = webhooks.project_key(payload), payload["label_config"]
        again_counted = RecountRun(client, backend, project, key, label_config, batch)
        if recount or refresh:
            with console.status("counting the kept votes again") as status:
                again_counted.count()
                if ask_more is not None:
                    asked = AskMoreRun(client, backend, project, key, label_config, ask_more, batch)
                    asked(status.update)
                    again_counted.count()
                    console.print(asked.tally.summary(ask_more), highlight=False, soft_wrap=True)
            if recount:
                again_counted.deliver()
                console.print(again_counted.tally.summary(), highlight=False, soft_wrap=True)
                return
        run = PredictionRun(
            client=client,
            predictor=backend,
            project=project,
            key=key,
            label_config=label_config,
            model_version=version,
            refresh=refresh,
            failed=failed or again,
            batch=batch,
        )
        backend.tasks = client.count_tasks(project)
        tasks = len(backend.failed_tasks(run.key)) if run.failed else backend.tasks
        code = run_on_terminal(console, run, tasks)
        if refresh and code != INTERRUPTED:
            again_counted.deliver()
            console.print(again_counted.tally.summary().partition("\n")[0], highlight=False, soft_wrap=True)
    finally:
        backend.close()
    raise typer.Exit(code)
