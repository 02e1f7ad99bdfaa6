"""The setup of a command: the ledger, and the handling of interruptions."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from types import FrameType

from sqlalchemy import Connection

from backend.errors import ConfigError
from backend.ledger import Ledger, projects
from backend.ledger.database.database import DATABASE_URL
from backend.ledger.projects import Project
from backend.settings import Environment


@contextmanager
def interruptible() -> Iterator[None]:
    """Take SIGTERM and a closed terminal as Ctrl-C."""
    on_terminal = [stream for stream in (0, 1, 2) if os.isatty(stream)]

    def hang_up(number: int, frame: FrameType | None) -> None:
        """What is printed from now on would fail, and with it the work that ends the command."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in on_terminal:
            os.dup2(nowhere, stream)
        signal.default_int_handler(number, frame)

    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, signal.default_int_handler)}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup sets it
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, hang_up)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def existing_ledger(environment: Environment, *, migrated: bool = False) -> Iterator[Ledger]:
    """Open the server's ledger, and close it at the end. A SQLite file that is not there is not created.

    ``migrated`` brings its tables to this version first.
    """
    with opened_ledger(
        environment.database_url,
        DATABASE_URL,
        missing="run the command in the server's folder, set the variable to its value, or start camvo serve"
        " first",
    ) as ledger:
        if migrated:
            ledger.migrate()
        yield ledger


@contextmanager
def opened_ledger(url: str, source: str, *, missing: str) -> Iterator[Ledger]:
    """Open a ledger, and close it at the end.

    Errors name the ``source`` of its address; ``missing`` says what to do if there is no such ledger.
    """
    with closing(Ledger(url, source=source)) as ledger:
        if not ledger.exists():
            raise ConfigError(f"there is no ledger at {ledger.place}", where=source, fix=missing)
        yield ledger


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
