"""Paragraphs: a dialogue as lines of plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from backend.questions.objects.located_text import LocatedText

STRIDE = 1 << 24
"""The number of positions reserved for each line of a dialogue, far more than any line needs."""


def dialogue_text(content: object, name_key: str, text_key: str) -> str | None:
    """Return the data of a Paragraphs as lines ``name: text``; ``None`` if it is not a dialogue.

    Label Studio expects a list of objects. A plain string and a list of plain strings are accepted, too. A
    line without a speaker consists of its words.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, Sequence):
        return None
    lines = [_line(item, name_key, text_key) for item in content]
    return None if None in lines else "\n".join(line for line in lines if line)


def locate_dialogue(content: object, name_key: str, text_key: str) -> LocatedText:
    """Return the words of a dialogue, one line per entry, without the speakers' names.

    The editor counts UTF-16 code units and starts again in every line. A position is ``STRIDE`` times the
    line's index, plus that count.
    """
    texts: list[str] = []
    positions: list[int] = []
    offsets: list[int] = []
    line_start = 0
    for index, item in enumerate(content if isinstance(content, Sequence) else ()):
        words = _words(item, text_key) if isinstance(item, Mapping) else ""
        line = _line(item, name_key, text_key) or ""
        # The plain text has no line for an empty entry, whose line feed here is that of the line before.
        offset = line_start + _storable_length(line) - _storable_length(words) if line else line_start - 1
        texts.append(words)
        position = index * STRIDE
        for character in words:
            positions.append(position)
            offsets.append(offset)
            position += 1 + (character > "\uffff")
            offset += character != "\x00"
        positions.append(position)
        offsets.append(offset)
        if line:
            line_start = offset + 1
    return LocatedText("\n".join(texts), positions, utf16=True, offsets=offsets)


def _storable_length(text: str) -> int:
    """The length of the text in a prompt, which has no NUL."""
    return len(text) - text.count("\x00")


def _line(item: object, name_key: str, text_key: str) -> str | None:
    if isinstance(item, str):
        return item
    if not isinstance(item, Mapping):
        return None
    name, text = _words(item, name_key), _words(item, text_key)
    return f"{name}: {text}" if name else text


def _words(item: Mapping[str, object], key: str) -> str:
    return str(item[key]) if item.get(key) is not None else ""
