"""Texts between markers that they cannot forge, so that a model sees where data begins and ends."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from camvo.errors import InvalidParameterError


def fence(texts: Mapping[str, str], digits: int = 12) -> str:
    """The texts, each between a BEGIN line with a marker and its key and an END line with the same marker.

    The same texts give the same string, so a prompt's hash is stable. The marker has that many hexadecimal
    ``digits``.
    """
    marker = _marker(texts, digits)
    return "\n".join(f"BEGIN {marker} {_json(key)}\n{text}\nEND {marker}" for key, text in texts.items())


def read(fenced: str) -> dict[str, str]:
    """Undo ``fence``, whatever follows after the last END line.

    Raises:
        InvalidParameterError: there is no fence.
    """
    try:
        marker = fenced.split(" ", 2)[1]
        texts = {}
        for block in fenced.removeprefix(f"BEGIN {marker} ").split(f"\nBEGIN {marker} "):
            key, text = block.split("\n", 1)
            texts[json.loads(key)] = text[: text.rindex(f"\nEND {marker}")]
    except (ValueError, IndexError) as error:
        raise InvalidParameterError("the text is not fenced") from error
    return texts


def _marker(texts: Mapping[str, str], digits: int) -> str:
    """Hexadecimal digits that occur in no text and no key.

    They are a hash of the texts, so nobody can put them there beforehand; should they occur all the same, the
    next ones are taken.
    """
    content = _json(dict(texts))
    attempt = 0
    while True:
        marker = hashlib.sha256(f"{attempt} {content}".encode("utf-8", "surrogatepass")).hexdigest()[:digits]
        if not any(marker in part for pair in texts.items() for part in pair):
            return marker
        attempt += 1


def _json(content: object) -> str:
    return json.dumps(content, ensure_ascii=False)
