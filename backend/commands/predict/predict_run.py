"""``camvo predict``: the server predicts the tasks of a project, and the predictions go to Label Studio."""

from __future__ import annotations

from rich.console import Console

from backend.commands.connect import addresses
from backend.commands.connect.backend_client import BackendClient
from backend.commands.environment import environment_with
from backend.commands.label.options import LabelOptions
from backend.commands.predict.ask_more_run import AskMoreRun
from backend.commands.predict.prediction_run import PredictionRun
from backend.commands.predict.quoted import agree_to_quote
from backend.commands.predict.recount_run import RecountRun
from backend.commands.predict.terminal import INTERRUPTED, run_on_terminal
from backend.label_studio import webhooks


def predict_project(
    project: int,
    options: LabelOptions,
    label_studio: str | None,
    backend_url: str | None,
    *,
    refresh: bool,
    failed: bool,
    at_once: int,
) -> int:
    """Store the server's predictions of a project.

    Args:
        project: the project's number.
        options: budget and consent, and whether to retry failed tasks, only to count again, and to ask more.
        label_studio: Label Studio's address; ``None`` for that of the environment.
        backend_url: the server's address; ``None`` for that of the environment.
        refresh: whether votes are counted again first, and predictions replaced that have changed.
        failed: whether only tasks that failed before are asked about.
        at_once: tasks in one request to the server.

    Returns:
        The exit code.

    Raises:
        ConfigError: nobody agreed to the quote; nothing was spent.
        LabelStudioError: Label Studio refused, or cannot be reached; stored predictions stay.
        BackendError: the server refused, or cannot be reached; stored predictions stay.
        typer.Exit: somebody did not agree to the quote; nothing was spent.
    """
    console, environment = Console(), environment_with(None)
    url = addresses.backend_url(backend_url, environment)
    backend = BackendClient(url, environment, again=options.retry_failed)
    try:
        client = addresses.label_studio_client(label_studio, environment)
        payload = client.project(project)
        version = backend.model_version()
        key, label_config = webhooks.project_key(payload), payload["label_config"]
        counting = RecountRun(client, backend, project, key, label_config, at_once)
        run = PredictionRun(
            client=client,
            predictor=backend,
            project=project,
            key=key,
            label_config=label_config,
            model_version=version,
            refresh=refresh,
            failed=failed or options.retry_failed,
            batch=at_once,
        )
        if options.recount:
            _count_again(console, counting, options.ask_more)
            _deliver(console, counting)
            return 0
        backend.tasks = client.count_tasks(project)
        tasks = len(backend.failed_tasks(key)) if run.failed else backend.tasks
        agree_to_quote(backend, run, tasks, options, console)
        if refresh:
            _count_again(console, counting, options.ask_more)
        code = run_on_terminal(console, run, tasks)
        if refresh and code != INTERRUPTED:
            _deliver(console, counting, changes_only=True)
        return code
    finally:
        backend.close()


def _count_again(console: Console, counting: RecountRun, ask_more: float | None) -> None:
    """Have kept votes counted again, after further votes where they are worth most if they may cost money."""
    with console.status("counting the kept votes again") as status:
        counting.count()
        if ask_more is None:
            return
        run = AskMoreRun(counting, ask_more)
        run(status.update)
        counting.count()
        console.print(run.tally.summary(ask_more), highlight=False, soft_wrap=True)


def _deliver(console: Console, counting: RecountRun, *, changes_only: bool = False) -> None:
    counting.deliver()
    summary = counting.tally.summary()
    said = summary.partition("\n")[0] if changes_only else summary
    console.print(said, highlight=False, soft_wrap=True)
