"""One field of a task's data, read as the plain text that an annotator sees."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backend.errors import MissingFieldError
from backend.questions.objects import listing, table
from backend.questions.objects.hypertext import plain_text
from backend.questions.objects.paragraphs import dialogue

IMAGE = "Image"
"""The object tag whose data is the address of a picture, and is shown to models as one."""

TAGS = ("Text", "HyperText", "Paragraphs", "List", "Table", "Chat", IMAGE)
"""The object tags that can be shown to models."""

_STEP = re.compile(r"[^.\[\]]+")


@dataclass(frozen=True, slots=True)
class Field:
    """A key of the task's data and the object tag that shows it.

    ``tag`` is one of ``TAGS``, ``name`` the object tag's name; ``name_key`` and ``text_key`` are where the
    lines of a Paragraphs or a Chat keep their speaker and their words.
    """

    key: str
    tag: str
    name: str
    name_key: str = "author"
    text_key: str = "text"

    @property
    def where(self) -> str:
        """The place that an error about this field names."""
        return f"data.{self.key}"

    def content(self, data: Mapping[str, object]) -> object:
        """What the task's data holds for the field.

        Raises:
            MissingFieldError: the key is not there.
        """
        content = _look_up(data, self.key)
        if content is _ABSENT:
            raise MissingFieldError(
                "the task's data lacks this key, which the label config reads",
                where=self.where,
                fix="import the task with it, or change the label config",
            )
        return content

    def text(self, data: Mapping[str, object]) -> str:
        """The field's plain text, possibly blank; of an image, its address.

        Raises:
            MissingFieldError: the key is not there, or holds something that is no text.
        """
        content = self.content(data)
        match self.tag:
            case "Paragraphs" | "Chat":
                text, takes = dialogue(content, self.name_key, self.text_key), "a list of objects"
            case "List":
                text, takes = listing.text(content), "a list of objects with an id each"
            case "Table":
                text, takes = table.lines(content), "an object or a list"
            case _:
                text, takes = scalar(content), "a string"
        if text is None:
            raise MissingFieldError(
                f"the task's data holds a {type(content).__name__} here, which is no text",
                where=self.where,
                fix=f"a {self.tag} takes {takes}",
            )
        return storable(plain_text(text) if self.tag == "HyperText" else text)


def scalar(content: object) -> str | None:
    """A JSON string, number, truth value or null as the editor shows it; ``None`` for anything else."""
    if content is None:
        return ""
    if isinstance(content, bool):
        return str(content).lower()
    return str(content) if isinstance(content, str | int | float) else None


_ABSENT = object()


def _look_up(data: object, key: str) -> object:
    """The value under a key; a dotted path such as ``a.b[0]`` works where no key has that very name.

    The editor looks a ``$variable`` up in the same way.
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


def storable(text: str) -> str:
    """Without what JSON can carry but providers and databases refuse: NUL and halves of surrogate pairs."""
    return text.replace("\x00", "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
