"""The environment of a command."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from rich.console import Console

from backend.settings import Environment

_USUAL = "camvo.yaml"


def environment_with(config: Path | None) -> Environment:
    """Return the environment, with ``--config`` instead of ``CAMVO_CONFIG`` if it is given.

    A ``camvo.yaml`` in the folder is not used unasked; a line on stderr says so.
    """
    environment = Environment()
    if config is not None:
        return environment.model_copy(update={"config": config})
    if environment.config is None and Path(_USUAL).exists():
        _say_that_it_is_not_used()
    return environment


@cache
def _say_that_it_is_not_used() -> None:
    text = f"camvo: {_USUAL} lies here and is not used: give --config {_USUAL}, or set CAMVO_CONFIG"
    Console(stderr=True).print(text, highlight=False, soft_wrap=True)
