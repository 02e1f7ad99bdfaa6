"""Paragraphs: a dialogue as lines of plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from backend.questions.objects.located import Located

STRIDE = 1 << 24
"""Positions that each line of a dialogue has for itself, far more than any has characters."""


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


def located(content: object, text_key: str) -> Located:
    """What is said in a dialogue, a line each, without the names of those who say it.

    The editor counts in UTF-16 code units, in every line anew; a position is ``STRIDE`` times the line's
    index, more that count.
    """
    texts: list[str] = []
    positions: list[int] = []
    for index, item in enumerate(content if isinstance(content, Sequence) else ()):
        words = _words(item, text_key) if isinstance(item, Mapping) else ""
        texts.append(words)
        position = index * STRIDE
        for character in words:
            positions.append(position)
            position += 1 + (character > "\uffff")
        positions.append(position)
    return Located("\n".join(texts), positions, utf16=True)


def _line(item: object, name_key: str, text_key: str) -> str | None:
    if isinstance(item, str):
        return item
    if not isinstance(item, Mapping):
        return None
    name, text = _words(item, name_key), _words(item, text_key)
    return f"{name}: {text}" if name else text


def _words(item: Mapping[str, object], key: str) -> str:
    return str(item[key]) if item.get(key) is not None else ""
