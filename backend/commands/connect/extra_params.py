"""The option ``--extra-params``: overrides for one project."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from backend.errors import ConfigError


def parse_extra_params(options: Sequence[str]) -> dict[str, Any] | None:
    """Parse JSON objects, and ``key=value`` with JSON or plain text as the value; later ones win.

    Returns:
        The overrides, or ``None`` without an option: the project's extra params then stay.

    Raises:
        ConfigError: an option is neither of the two.
    """
    overrides: dict[str, Any] = {}
    for text in options:
        key, equals, value = text.partition("=")
        if text.lstrip().startswith("{"):
            overrides |= _mapping(text)
        elif equals and key.strip():
            overrides[key.strip()] = _value(value)
        else:
            raise _mistake()
    return overrides if options else None


def _mapping(text: str) -> dict[str, Any]:
    value = _value(text)
    if not isinstance(value, dict):
        raise _mistake()
    return value


def _value(text: str) -> Any:
    try:
        return yaml.safe_load(text)  # YAML includes JSON, and true, 3 and plain words
    except yaml.YAMLError:
        raise _mistake() from None


def _mistake() -> ConfigError:
    return ConfigError(
        "is neither a JSON object nor key=value",
        where="--extra-params",
        fix="""give '{"delta": 0.9}' or delta=0.9""",
    )
