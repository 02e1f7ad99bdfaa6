"""Texts between markers that the texts cannot contain, so that a model sees where data begins and ends."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping


def fence(texts: Mapping[str, str], digits: int = 12) -> str:
    """Return the texts, each between a BEGIN line with a marker and its key and an END line with the marker.

    Equal texts give equal strings, so the hash of a prompt is stable.

    Args:
        texts: key → text.
        digits: the number of hexadecimal digits of the marker.
    """
    marker = _marker(texts, digits)
    return "\n".join(f"BEGIN {marker} {_json(key)}\n{text}\nEND {marker}" for key, text in texts.items())


def _marker(texts: Mapping[str, str], digits: int) -> str:
    """Return hexadecimal digits that occur in no text and no key.

    They are a hash of the texts, so nobody can put them into a text beforehand. If they occur by chance, the
    next hash is tried.
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
