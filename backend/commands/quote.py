"""The quote of a file or of a project in Label Studio."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

from backend import settings as settings_module
from backend.commands.bulk.batch_run import batching_of
from backend.commands.bulk.dataset_jobs import DatasetJobs
from backend.commands.bulk.held_labels import HeldLabels
from backend.commands.bulk.process import (
    annotation_process,
    ledger_to_read,
    open_project,
    remembered_settings,
)
from backend.commands.bulk.quoting import print_quote, quote_after_pilot
from backend.commands.shared import backend_client
from backend.commands.shared.options import LabelOptions
from backend.commands.shared.setup import environment_with, interruptible, quiet_logs
from backend.datasets.sources import open_source
from backend.datasets.tasks import Index
from backend.errors import ConfigError
from backend.label_studio.client import Client
from backend.ledger import migrate
from backend.models.embedder import Embedder
from backend.quotes.quote import Quote
from backend.settings import Environment, Settings


def print_quote_of(
    source: Path | int,
    options: LabelOptions,
    config: Path | None,
    label_studio: str | None,
    *,
    as_json: bool,
    target: float | None = None,
) -> None:
    """Print the quote of a file, or of a Label Studio project by its number."""
    environment = environment_with(config)
    quiet_logs(environment)
    console = Console(stderr=as_json)
    with interruptible():
        if isinstance(source, int):
            client = backend_client.label_studio_client(label_studio, environment)
            quote = quote_project(client, source, options, environment, console, target=target)
        else:
            quote = quote_file(source, options, environment, console, target=target)
    if as_json:
        print(json.dumps(quote.to_json(), indent=2))  # noqa: T201 - the output
    else:
        print_quote(console, quote)


def quote_file(
    path: Path,
    options: LabelOptions,
    environment: Environment,
    console: Console,
    embedder: Embedder | None = None,
    *,
    target: float | None = None,
) -> Quote:
    """The quote of a file, after a pilot if there is to be one."""
    source = open_source(path)
    dataset, project = options.dataset(source), options.project(source.path)
    settings = settings_module.load(environment.config)
    _require_price(settings, target)
    with Index(dataset) as index, ledger_to_read(environment, asking=options.pilot > 0) as of_quote:
        index.build()
        migrate(of_quote.database_url)
        with annotation_process(settings, of_quote, embedder, asking=options.pilot > 0) as process:
            own = remembered_settings(
                process, project, dataset.label_config, settings, task_number=index.tasks
            )
            batching = batching_of(own, process, everyone=options.batch)
            held = HeldLabels.of(process, project, dataset.config, own, options.below)
            jobs = DatasetJobs(
                process,
                project,
                dataset.config,
                own,
                purse=options.purse,
                batching=batching,
                held=held,
            )
            return quote_after_pilot(jobs, index, options, console, target)


def quote_project(  # noqa: PLR0917 - a project, and what a pilot needs
    client: Client,
    number: int,
    options: LabelOptions,
    environment: Environment,
    console: Console,
    embedder: Embedder | None = None,
    *,
    target: float | None = None,
) -> Quote:
    """The quote of a project of Label Studio, after a pilot if there is to be one."""
    settings = settings_module.load(environment.config)
    _require_price(settings, target)
    asking = options.pilot > 0
    with (
        ledger_to_read(environment, asking=asking) as of_quote,
        open_project(client, number, options, settings, of_quote, embedder, asking=asking) as project,
    ):
        return quote_after_pilot(project.jobs, project.tasks, options, console, target)


def _require_price(settings: Settings, target: float | None) -> None:
    if target is not None and not settings.humans.priced:
        raise ConfigError(
            "needs the price of a person's label",
            where="--target",
            fix="set humans: {price: 0.12} in camvo.yaml, in dollars",
        )
