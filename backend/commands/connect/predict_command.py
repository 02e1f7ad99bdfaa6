"""``camvo predict``: its options. Heavy modules are imported when it runs, which keeps the help fast."""

from __future__ import annotations

from typing import Annotated

import typer

from backend.commands.connect.options import BackendUrl, LabelStudioUrl, ProjectNumber


def predict(  # noqa: PLR0917 - a command's options
    project: ProjectNumber,
    label_studio: LabelStudioUrl = None,
    backend_url: BackendUrl = None,
    refresh: Annotated[
        bool,
        typer.Option(
            "--refresh/--only-missing",
            help="Also replace predictions that have changed, or only add missing ones.",
        ),
    ] = False,
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
    batch: Annotated[int, typer.Option(min=1, max=500, help="Tasks in one request to the server.")] = 50,
) -> None:
    """Store the server's predictions for a whole Label Studio project. Repeat it after an interruption.

    The server calls the models, which costs money. Needs LABEL_STUDIO_API_KEY.

    Example: camvo predict --project 1 --label-studio http://localhost:8080
    """
    from rich.console import Console  # noqa: PLC0415 - keeps the help fast

    from backend.commands.connect import addresses  # noqa: PLC0415 - keeps the help fast
    from backend.commands.connect.backend_client import BackendClient  # noqa: PLC0415
    from backend.commands.connect.predict import PredictionRun  # noqa: PLC0415
    from backend.commands.environment import environment_with  # noqa: PLC0415
    from backend.commands.progress import progress_bar  # noqa: PLC0415
    from backend.label_studio import webhooks  # noqa: PLC0415

    environment = environment_with(None)
    backend = BackendClient(addresses.backend_url(backend_url, environment), environment, again=again)
    console = Console()
    try:
        client = addresses.label_studio_client(label_studio, environment)
        payload = client.project(project)
        run = PredictionRun(
            client=client,
            predictor=backend,
            project=project,
            key=webhooks.project_key(payload),
            label_config=payload["label_config"],
            model_version=backend.model_version(),
            refresh=refresh,
            failed=failed or again,
            batch=batch,
        )
        backend.tasks = client.count_tasks(project)
        tasks = len(backend.failed_tasks(run.key)) if run.failed else backend.tasks
        with progress_bar(console, "tasks", tasks) as advance:
            tally = run(advance)
    finally:
        backend.close()
    console.print(tally.summary(), highlight=False, soft_wrap=True)
