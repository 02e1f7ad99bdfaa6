"""``camvo label --project N``: predictions for a Label Studio project, without a server."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from backend import settings as settings_module
from backend.commands.connect import addresses
from backend.commands.connect.predict import PredictionRun
from backend.commands.environment import environment_with
from backend.commands.label.file_run import interruptible, quiet_logs
from backend.commands.label.options import LabelOptions
from backend.commands.label.project_predictor import ProjectPredictor
from backend.commands.label.run import annotation_process, remembered_settings
from backend.commands.label.spending import Spending
from backend.commands.progress import progress_bar
from backend.label_studio import webhooks
from backend.ledger import migrate
from backend.questions import parse_label_config
from backend.questions.label_config import require_questions

_PAGE = 200
"""Tasks that are fetched and asked about together."""


def label_project(
    number: int, config: Path | None, label_studio: str | None, *, budget: float | None, retry_failed: bool
) -> None:
    """Store predictions for a project in Label Studio, with the ledger of the environment.

    Args:
        number: the project's number.
        config: ``camvo.yaml``; ``None`` for that of the environment.
        label_studio: Label Studio's address; ``None`` for that of the environment.
        budget: the most that the project may cost over all runs, in $.
        retry_failed: whether only tasks that failed before are asked about.

    Raises:
        CamvoError: the settings are wrong, or Label Studio or the ledger fails; stored predictions stay.
        typer.Exit: somebody interrupted the run.
    """
    environment = environment_with(config)
    quiet_logs(environment)
    console = Console()
    client = addresses.label_studio_client(label_studio, environment)
    payload = client.project(number)
    key, label_config = webhooks.project_key(payload), payload["label_config"]
    require_questions(parse_label_config(label_config))
    loaded = settings_module.load(environment.config)
    migrate(environment.database_url)
    environment = environment.model_copy(update={"label_studio_url": client.url})
    with annotation_process(loaded, environment) as process:
        own_settings = remembered_settings(process, key, label_config, loaded)
        settings = LabelOptions(budget=budget).settings(own_settings)
        predictor = ProjectPredictor(process, settings, again=retry_failed)
        run = PredictionRun(
            client=client,
            predictor=predictor,
            project=number,
            key=key,
            label_config=label_config,
            model_version=settings.model_version,
            failed=retry_failed,
            batch=_PAGE,
        )
        tasks = len(predictor.failed_tasks(key)) if retry_failed else client.count_tasks(number)
        spending = Spending(process.ledger, key)
        with (
            interruptible(),
            progress_bar(console, "labelling", tasks, note=spending.so_far) as advance,
        ):
            tally = run(advance)
        console.print(tally.summary(), highlight=False, soft_wrap=True)
        console.print(f"the project has cost ${spending.in_all():.4f}", highlight=False)
