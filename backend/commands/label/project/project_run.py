"""``camvo label --project N``: predictions for a Label Studio project, without a server."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from backend import settings as settings_module
from backend.commands.certificate.outcome import print_outcome
from backend.commands.connect import addresses
from backend.commands.environment import environment_with
from backend.commands.label.batched.batch_run import BatchRun, batching_of
from backend.commands.label.dataset_jobs import DatasetJobs
from backend.commands.label.file_run import interruptible, quiet_logs, write_results
from backend.commands.label.options import LabelOptions
from backend.commands.label.project.project_file import ProjectTasks
from backend.commands.label.project.project_process import annotation_process, remembered_settings
from backend.commands.label.project.project_sweeps import ProjectSweeps
from backend.commands.label.results import results
from backend.commands.label.spending import Spending
from backend.commands.predict.tally import Tally
from backend.commands.quote.quoting import agreed
from backend.datasets.sinks.open_sink import check_sink
from backend.label_studio import webhooks
from backend.label_studio.client import Client
from backend.ledger import migrate
from backend.models.embedder.embedder import Embedder
from backend.questions import parse_label_config
from backend.questions.label_config import require_questions
from backend.settings import Environment


def label_project(
    number: int,
    config: Path | None,
    label_studio: str | None,
    options: LabelOptions,
    out: Path | None = None,
) -> bool:
    """Store predictions for a project in Label Studio, with the ledger of the environment.

    Args:
        number: the project's number.
        config: ``camvo.yaml``; ``None`` for that of the environment.
        label_studio: Label Studio's address; ``None`` for that of the environment.
        options: the budget, and how else to label.
        out: a file that the labels are written to, too; ``None`` for none.

    Returns:
        Whether no task is left without a prediction.

    Raises:
        CamvoError: the settings are wrong, or Label Studio or the ledger fails; stored predictions stay.
        typer.Exit: somebody interrupted the run.
    """
    if out is not None:
        check_sink(out)
    environment = environment_with(config)
    quiet_logs(environment)
    client = addresses.label_studio_client(label_studio, environment)
    console = Console()
    with interruptible():
        tally = predict_project(client, number, options, environment, console, out=out)
    print_outcome(console, environment, webhooks.project_key(client.project(number)))
    return not tally.left


def predict_project(  # noqa: PLR0917 - a project, and what a run needs
    client: Client,
    number: int,
    options: LabelOptions,
    environment: Environment,
    console: Console,
    embedder: Embedder | None = None,
    *,
    out: Path | None = None,
) -> Tally:
    """Predict a project's tasks in this process, and store the predictions in Label Studio.

    Args:
        client: Label Studio.
        number: the project's number.
        options: the budget, whether to retry failed tasks, and whether to ask in batches.
        environment: the ledger's address, ``camvo.yaml`` and the secrets.
        console: where progress is shown.
        embedder: an embedder to use instead of a new one; closed at the end.
        out: a file that the labels are written to, too; ``None`` for none.

    Raises:
        CamvoError: the settings are wrong, or Label Studio or the ledger fails; stored predictions stay.
    """
    payload = client.project(number)
    key, label_config = webhooks.project_key(payload), payload["label_config"]
    parsed = parse_label_config(label_config)
    require_questions(parsed)
    loaded = settings_module.load(environment.config)
    migrate(environment.database_url)
    environment = environment.model_copy(update={"label_studio_url": client.url})
    with annotation_process(loaded, environment, embedder) as process:
        own_settings = remembered_settings(process, key, label_config, loaded, payload.get("task_number"))
        jobs = DatasetJobs(
            process,
            key,
            parse_label_config(label_config),
            own_settings,
            options.retry_failed,
            options.purse,
            batching=batching_of(own_settings, process, everyone=options.batch),
        )
        tasks_in_all = client.count_tasks(number)
        listed = ProjectTasks(client, number, tasks_in_all)
        jobs = agreed(jobs, listed, options, console)
        sweeps = ProjectSweeps(client, number, label_config, tasks_in_all, options.retry_failed, console)
        BatchRun(jobs, sweeps.sweep, console, options.wait).run(tasks_in_all)
        tally, spending = sweeps.tally, Spending(process.ledger, key)
        console.print(tally.summary(), highlight=False, soft_wrap=True)
        if out is not None:
            write_results(out, results(listed, jobs), listed.columns, console)
            console.print(f"written to {out}", highlight=False, soft_wrap=True)
        console.print(f"the project has cost ${spending.in_all():.4f}", highlight=False)
        return tally
