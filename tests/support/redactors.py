"""Redact functions that tests name in ``camvo.yaml``."""

from __future__ import annotations

import re

NOT_A_FUNCTION = 5


def heron(text: str) -> list[tuple[int, int, str]]:
    """Replaces "heron"."""
    return [(match.start(), match.end(), "<BIRD>") for match in re.finditer("heron", text)]


def failing(text: str) -> list[tuple[int, int, str]]:
    """Fails and quotes the text, unless it has a sun."""
    if "sun" in text:
        return []
    raise ValueError(f"cannot read {text}")
