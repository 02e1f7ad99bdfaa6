"""Image: the words in an image's file name."""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import parse_qs, unquote, urlsplit


def file_name(address: str) -> str:
    """Return the name of an image's file as words, without its suffix; empty for a ``data:`` URL.

    >>> file_name("https://example.org/a/red_wool-scarf.jpg?size=2"), file_name("data:image/png;base64,AA==")
    ('red wool scarf', '')
    """
    if address.startswith("data:"):
        return ""
    parts = urlsplit(address)
    path = parse_qs(parts.query).get("d", [parts.path])[0]  # /data/local-files/?d=folder/name.jpg
    return PurePosixPath(unquote(path)).stem.replace("_", " ").replace("-", " ")
