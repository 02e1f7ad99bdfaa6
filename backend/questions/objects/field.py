"""One field of a task's data, as the plain text that an annotator sees."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backend.errors import MissingFieldError
from backend.questions.objects import listing, table
from backend.questions.objects.hypertext import plain_text
from backend.questions.objects.paragraphs import dialogue_text

IMAGE = "Image"
"""The object tag whose data is the address of an image; models are shown the image."""

TAGS = ("Text", "HyperText", "Paragraphs", "List", "Table", "Chat", IMAGE)
"""The object tags that can be shown to models."""

_STEP = re.compile(r"[^.\[\]]+")


@dataclass(frozen=True, slots=True)
class Field:
    """A key of the task's data and the object tag that shows it.

    Attributes:
        key: the key of the task's data; may be a path such as ``a.b[0]``.
        tag: one of ``TAGS``.
        name: the object tag's name.
        name_key: for Paragraphs and Chat, the key of a line's speaker.
        text_key: for Paragraphs and Chat, the key of a line's words.
    """

    key: str
    tag: str
    name: str
    name_key: str = "author"
    text_key: str = "text"

    @property
    def where(self) -> str:
        """The location that errors about this field name."""
        return f"data.{self.key}"

    def content(self, data: Mapping[str, object]) -> object:
        """Return the field's value in the task's data.

        Raises:
            MissingFieldError: the key is missing.
        """
        content = _look_up(data, self.key)
        if content is _ABSENT:
            raise MissingFieldError(
                "the task's data lacks a key that the label config reads",
                where=self.where,
                fix="import the task with this key, or change the label config",
            )
        return content

    def text(self, data: Mapping[str, object]) -> str:
        """Return the field's plain text, which may be blank; for an image, its address.

        Raises:
            MissingFieldError: the key is missing, or its value is not text.
        """
        content = self.content(data)
        match self.tag:
            case "Paragraphs" | "Chat":
                text, expected = dialogue_text(content, self.name_key, self.text_key), "a list of objects"
            case "List":
                text, expected = listing.list_text(content), "a list of objects, each with an id"
            case "Table":
                text, expected = table.table_text(content), "an object or a list"
            case _:
                text, expected = scalar_text(content), "a string"
        if text is None:
            raise MissingFieldError(
                f"the task's data holds a {type(content).__name__} here, which is not text",
                where=self.where,
                fix=f"a {self.tag} needs {expected}",
            )
        return storable_text(plain_text(text) if self.tag == "HyperText" else text)


def scalar_text(content: object) -> str | None:
    """Return a JSON string, number, boolean or null as the editor shows it; ``None`` for anything else."""
    if content is None:
        return ""
    if isinstance(content, bool):
        return str(content).lower()
    return str(content) if isinstance(content, str | int | float) else None


_ABSENT = object()


def _look_up(data: object, key: str) -> object:
    """Return the value under a key, or under a path such as ``a.b[0]`` if no key has exactly this name.

    The editor resolves a ``$variable`` in the same way.
    """
    if isinstance(data, Mapping) and key in data:
        return data[key]
    for step in _STEP.findall(key):
        if isinstance(data, Mapping) and step in data:
            data = data[step]
        elif (
            isinstance(data, Sequence)
            and not isinstance(data, str)
            and step.isdecimal()
            and int(step) < len(data)
        ):
            data = data[int(step)]
        else:
            return _ABSENT
    return data


def storable_text(text: str) -> str:
    """Remove NUL and replace lone surrogates: JSON allows them, but providers and databases refuse them."""
    return text.replace("\x00", "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
