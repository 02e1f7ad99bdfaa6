"""What the ledger knows about a project: its own settings, and what Label Studio last said of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from backend.errors import ConfigError
from backend.ledger import projects
from backend.ledger.projects import Project
from backend.settings import Settings


def project_settings(stored: Project | None, settings: Settings) -> tuple[Settings, ConfigError | None]:
    """The settings with a project's own overrides, which Label Studio sent as ``extra_params``.

    Args:
        stored: the project, ``None`` if the ledger does not know it.
        settings: the server's settings.

    Returns:
        The project's settings. If its overrides no longer fit the server's settings: the server's settings,
        and the error that says why.
    """
    try:
        return settings.for_project(None if stored is None else stored.extra_params), None
    except ConfigError as error:
        return settings, error


def is_new(stored: Project | None, columns: Mapping[str, Any]) -> bool:
    """Whether columns of a project differ from the stored ones; an empty label config never does."""
    return stored is None or any(
        getattr(stored, name) != value for name, value in _without_empty_config(columns).items()
    )


def remember_project(
    connection: Connection, key: str, columns: Mapping[str, Any], now: float
) -> Project | None:
    """Store what Label Studio said of a project, unless the ledger holds the same.

    Args:
        connection: a write transaction.
        key: the project's key.
        columns: ``extra_params``, ``label_config``, ``model_version`` and ``tasks``, or some of them. An
            empty label config leaves the stored one as it is.
        now: unix seconds.

    Returns:
        The project as it was stored before.
    """
    stored = projects.get(connection, key)
    if is_new(stored, columns):
        projects.remember(connection, key, **_without_empty_config(columns), now=now)
    return stored


def _without_empty_config(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in columns.items() if name != "label_config" or value}
