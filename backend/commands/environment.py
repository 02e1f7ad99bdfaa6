"""The environment of a command."""

from __future__ import annotations

from pathlib import Path

from backend.settings import Environment


def environment_with(config: Path | None) -> Environment:
    """Return the environment, with ``--config`` instead of ``CAMVO_CONFIG`` if it is given."""
    environment = Environment()
    return environment if config is None else environment.model_copy(update={"config": config})
