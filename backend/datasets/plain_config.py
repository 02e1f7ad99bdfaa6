"""The label config of a plain question: one text, one label of a list."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.sax.saxutils import quoteattr

from backend.errors import ConfigError

_VARIABLE = re.compile(r"[^\s,${}.\[\]\"'<>&]+")
"""Column names that a label config can refer to as ``$name``."""

CONTROL = "label"
"""The name of the question."""


def text_key(column: str) -> str:
    """The key under which a task holds the text: the column's name if a label config can refer to it."""
    return column if _VARIABLE.fullmatch(column) else "text"


def plain_label_config(labels: Sequence[str], column: str) -> str:
    """Write the label config that asks for one of ``labels`` about the text in ``column``.

    Raises:
        ConfigError: there are fewer than two labels, or one of them twice.
    """
    if len(set(labels)) < 2 or len(set(labels)) < len(labels):
        raise ConfigError(
            "names fewer than two labels, or one of them twice",
            where="--labels",
            fix="give them with commas: --labels Positive,Negative",
        )
    choices = "\n".join(f"    <Choice value={quoteattr(label)}/>" for label in labels)
    return (
        "<View>\n"
        f'  <Text name="text" value="${text_key(column)}"/>\n'
        f'  <Choices name="{CONTROL}" toName="text">\n{choices}\n  </Choices>\n'
        "</View>\n"
    )
