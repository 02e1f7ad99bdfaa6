"""Projects of the ledger, by the number or key that an option names."""

from __future__ import annotations

from sqlalchemy import Connection

from backend.errors import ConfigError
from backend.ledger import projects
from backend.ledger.projects import Project


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
