"""Projects of the ledger, by the number or key that an option names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from backend.errors import ConfigError
from backend.ledger import Ledger, projects
from backend.ledger.projects import Project
from backend.settings import Environment


@contextmanager
def existing_ledger(environment: Environment) -> Iterator[Ledger]:
    """Open the server's ledger, and close it at the end. A SQLite file that is not there is not created.

    Raises:
        ConfigError: there is no ledger at ``CAMVO_DATABASE_URL``.
    """
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

    Raises:
        ConfigError: the ledger has no such project.
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
