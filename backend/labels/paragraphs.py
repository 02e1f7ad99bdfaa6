"""Paragraphs: a dialogue as lines of plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def dialogue(content: object, name_key: str, text_key: str) -> str | None:
    """The data of a Paragraphs as lines ``name: text``; ``None`` if it is no dialogue.

    Label Studio wants a list of objects; a plain string and a list with plain strings in it are read too. A
    line without a speaker is its words alone.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, Sequence):
        return None
    lines = [_line(item, name_key, text_key) for item in content]
    return None if None in lines else "\n".join(line for line in lines if line)


def _line(item: object, name_key: str, text_key: str) -> str | None:
    if isinstance(item, str):
        return item
    if not isinstance(item, Mapping):
        return None
    name, text = (str(item[key]) if item.get(key) is not None else "" for key in (name_key, text_key))
    return f"{name}: {text}" if name else text
