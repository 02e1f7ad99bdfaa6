"""The setup of a command: the environment, its logs, the ledger, and the handling of interruptions."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import typer
from rich.console import Console
from sqlalchemy import Connection

from backend.commands.shared.output import say
from backend.errors import ConfigError
from backend.ledger import Ledger, projects
from backend.ledger.projects import Project
from backend.settings import Environment
from backend.telemetry import logs

_USUAL = "camvo.yaml"


def environment_with(config: Path | None) -> Environment:
    """Return the environment, with ``--config`` instead of ``CAMVO_CONFIG`` if it is given.

    A ``camvo.yaml`` in the folder is not used unless requested; a line on stderr says so.
    """
    environment = Environment()
    if config is not None:
        return environment.model_copy(update={"config": config})
    if environment.config is None and Path(_USUAL).exists():
        _say_that_it_is_not_used()
    return environment


@cache
def _say_that_it_is_not_used() -> None:
    text = f"camvo: found {_USUAL}, which is not used: give --config {_USUAL}, or set CAMVO_CONFIG"
    say(Console(stderr=True), text)


@contextmanager
def interruptible() -> Iterator[None]:
    """Take SIGTERM as Ctrl-C, and end with exit code 130 after either."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def quiet_logs(environment: Environment) -> None:
    """Log errors only, unless the environment says otherwise: the command itself says what it does."""
    logs.configure(environment.log_level if "log_level" in environment.model_fields_set else "error")


@contextmanager
def existing_ledger(environment: Environment) -> Iterator[Ledger]:
    """Open the server's ledger, and close it at the end. A SQLite file that is not there is not created."""
    ledger = Ledger(environment.database_url)
    try:
        if not ledger.exists():
            raise ConfigError(
                f"there is no ledger at {ledger.place}",
                where="CAMVO_DATABASE_URL",
                fix="run the command in the server's folder, set the variable to its value, or start "
                "camvo serve first",
            )
        yield ledger
    finally:
        ledger.close()


def stored_project(connection: Connection, project: str) -> Project:
    """The project of the ledger with this key, or with this number in Label Studio.

    Several projects have the same number if Label Studio was set up anew; the one updated last is returned.
    """
    matching = [
        stored
        for stored in projects.list_all(connection)
        if project in {stored.key, stored.key.partition(".")[0]}
    ]
    if not matching:
        raise ConfigError(
            f"the ledger has no project {project!r}",
            where="--project",
            fix="get predictions for it first, and set CAMVO_DATABASE_URL to the server's value",
        )
    return max(matching, key=lambda stored: stored.updated_at)
