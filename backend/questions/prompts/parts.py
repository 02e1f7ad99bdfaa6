"""Messages whose content is a text, or a list of parts in OpenAI's form: texts and images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Messages: TypeAlias = Sequence[Mapping[str, Any]]
"""``{"role": …, "content": …}`` each."""


def image(address: str) -> dict[str, Any]:
    """An image as a part: an address on the web, or a ``data:`` URL that holds the image itself."""
    return {"type": "image_url", "image_url": {"url": address}}


def text(words: str) -> dict[str, Any]:
    """A text as a part."""
    return {"type": "text", "text": words}


def parts(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The content of a message as parts."""
    content = message["content"]
    return [text(content)] if isinstance(content, str) else list(content)


def texts(messages: Messages) -> tuple[str, ...]:
    """The texts of all messages."""
    return tuple(part["text"] for part in _all(messages) if part["type"] == "text")


def images(messages: Messages) -> int:
    """How many images there are in all messages."""
    return sum(part["type"] == "image_url" for part in _all(messages))


def _all(messages: Messages) -> Iterator[dict[str, Any]]:
    return (part for message in messages for part in parts(message))
