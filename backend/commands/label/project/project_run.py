"""``camvo label --project N``: predictions for a Label Studio project, without a server."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from backend import settings as settings_module
from backend.commands.certificate.outcome import print_outcome
from backend.commands.connect import addresses
from backend.commands.environment import environment_with
from backend.commands.label.batched.batch_run import BatchRun
from backend.commands.label.file_run import interruptible, quiet_logs, write_results
from backend.commands.label.options import LabelOptions
from backend.commands.label.project.project_process import open_project
from backend.commands.label.project.project_recount import recount_project
from backend.commands.label.project.project_sweeps import ProjectSweeps
from backend.commands.label.results import results
from backend.commands.label.spending import Spending
from backend.commands.predict.tally import Tally
from backend.commands.quote.quoting import agreed
from backend.datasets.sinks.open_sink import check_sink
from backend.label_studio.client import Client
from backend.models.embedder.embedder import Embedder
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
    settings = settings_module.load(environment.config)
    with open_project(client, number, options, settings, environment, embedder) as project:
        jobs, tasks = agreed(project.jobs, project.tasks, options, console), project.tasks
        sweeps = ProjectSweeps(project, options.retry_failed, console)
        BatchRun(jobs, sweeps.sweep, console, options.wait).run(tasks.tasks)
        tally, spending = sweeps.tally, Spending(jobs.process.ledger, jobs.project)
        console.print(tally.summary(), highlight=False, soft_wrap=True)
        if options.recount:
            recount_project(project, options, environment, console)
        if out is not None:
            write_results(out, results(tasks, jobs), tasks.columns, console)
            console.print(f"written to {out}", highlight=False, soft_wrap=True)
        console.print(f"the project has cost ${spending.in_all():.4f}", highlight=False)
    print_outcome(console, environment, jobs.project)
    return tally
