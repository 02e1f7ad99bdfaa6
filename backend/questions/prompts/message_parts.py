"""Messages in OpenAI's form: the content is a text, or a list of parts, each a text or an image."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Messages: TypeAlias = Sequence[Mapping[str, Any]]
"""A sequence of ``{"role": …, "content": …}``."""


def image_part(address: str) -> dict[str, Any]:
    """Return an image as a part; the address is a web address, or a ``data:`` URL with the image itself."""
    return {"type": "image_url", "image_url": {"url": address}}


def text_part(words: str) -> dict[str, Any]:
    """Return a text as a part."""
    return {"type": "text", "text": words}


def content_parts(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the content of a message as a list of parts."""
    content = message["content"]
    return [text_part(content)] if isinstance(content, str) else list(content)


def texts_of(messages: Messages) -> tuple[str, ...]:
    """Return the texts of all messages."""
    return tuple(part["text"] for part in _all_parts(messages) if part["type"] == "text")


def image_count(messages: Messages) -> int:
    """Return the number of images in all messages."""
    return len(image_addresses(messages))


def image_addresses(messages: Messages) -> tuple[str, ...]:
    """Return the web addresses or ``data:`` URLs of the images in all messages."""
    return tuple(part["image_url"]["url"] for part in _all_parts(messages) if part["type"] == "image_url")


def _all_parts(messages: Messages) -> Iterator[dict[str, Any]]:
    return (part for message in messages for part in content_parts(message))
