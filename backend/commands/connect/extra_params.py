"""``--extra-params``: overrides for one project, from a command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from backend.errors import ConfigError


def read(given: Sequence[str]) -> dict[str, Any] | None:
    """A JSON object, or ``key=value`` with JSON or plain text for a value; later ones win.

    Returns:
        ``None`` when nothing is given: what the project has stays.

    Raises:
        ConfigError: neither of the two.
    """
    overrides: dict[str, Any] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if text.lstrip().startswith("{"):
            overrides |= _mapping(text)
        elif equals and key.strip():
            overrides[key.strip()] = _value(value)
        else:
            raise _mistake()
    return overrides if given else None


def _mapping(text: str) -> dict[str, Any]:
    value = _value(text)
    if not isinstance(value, dict):
        raise _mistake()
    return value


def _value(text: str) -> Any:
    try:
        return yaml.safe_load(text)  # JSON is YAML; so are true, 3 and plain words
    except yaml.YAMLError:
        raise _mistake() from None


def _mistake() -> ConfigError:
    return ConfigError(
        "this is neither a JSON object nor key=value",
        where="--extra-params",
        fix="""give '{"delta": 0.9}' or delta=0.9""",
    )
