"""One control tag of a label config, as a question that can be voted on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

from backend.errors import EmptyTextError
from backend.questions.controls.control import Control, Shown
from backend.questions.objects.field import IMAGE, Field
from backend.questions.objects.image import file_name


@dataclass(frozen=True, slots=True)
class ConfigQuestion:
    """A control tag: what is asked, and which fields of the task it is about.

    ``name`` and ``to_name`` are Label Studio's ``from_name`` and ``to_name``, ``tag`` the tag's name and
    ``control`` what is particular to it. ``fields`` starts with the objects that the control is attached to.
    ``instructions`` is the control's attribute ``camvo_instructions``.
    """

    name: str
    to_name: str
    tag: str
    control: Control
    fields: tuple[Field, ...]
    instructions: str | None = None

    def about(self, data: Mapping[str, object]) -> TaskQuestion:
        """The question about one task, whose data this is.

        Raises:
            MissingFieldError: the task's data lacks a key, or holds no text there.
            EmptyTextError: the first field is blank.
            TaskError: the task leaves nothing to decide.
        """
        texts = self.texts(data)
        images = {field.key: texts.pop(field.key) for field in self.fields if field.tag == IMAGE}
        shown = Shown(texts, data, {key: address for key, address in images.items() if address.strip()})
        return TaskQuestion(self, shown, self.control.options(shown))

    def texts(self, data: Mapping[str, object]) -> dict[str, str]:
        """The plain text of every field, or the address of its image: by key, in the order of ``fields``.

        The first field is what is labelled, so it must say something; the others may be blank.

        Raises:
            MissingFieldError: the task's data lacks a key, or holds no text there.
            EmptyTextError: the first field is blank.
        """
        texts = {field.key: field.text(data) for field in self.fields}
        first = self.fields[0]
        if not texts[first.key].strip():
            what = "image" if first.tag == IMAGE else "text"
            raise EmptyTextError(
                f"there is no {what} to label", where=first.where, fix="skip or delete the task"
            )
        return texts

    @property
    def digest(self) -> str:
        """SHA-256 (hex) over all that makes the question what it is to a model."""
        return _digest(self)

    def answer(self, result: Sequence[object]) -> str | None:
        """The vote that an annotation's ``result`` gives to this question.

        ``None`` if the control was left alone (unless that is an answer too), or answered with anything
        that the config as it is now does not allow.
        """
        items = [item for item in result if isinstance(item, Mapping) and item.get("from_name") == self.name]
        if any(item.get("type") != self.tag.lower() for item in items):
            return None
        return self.control.answer(items)


@lru_cache(maxsize=256)
def _digest(question: ConfigQuestion) -> str:
    identity = [
        question.name,
        question.tag.lower(),
        asdict(question.control),  # type: ignore[call-overload]  # a Control is a dataclass
        [[field.key, field.tag, field.name_key, field.text_key] for field in question.fields],
        question.instructions,
    ]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class TaskQuestion:
    """A question about one task: with the task's texts, and with the options that its votes name."""

    question: ConfigQuestion
    shown: Shown
    options: tuple[str, ...]

    @property
    def name(self) -> str:
        """The control's name."""
        return self.question.name

    @property
    def texts(self) -> Mapping[str, str]:
        """Field key → plain text."""
        return self.shown.texts

    @property
    def images(self) -> Mapping[str, str]:
        """Field key → the address of an image."""
        return self.shown.images

    @property
    def context(self) -> str:
        """What is embedded: the texts; where there are none, the names of the images' files.

        The embedder cannot see: an image's caption has to say what kind of image it is.
        """
        words = "\n".join(self.texts.values())
        return words if words.strip() else "\n".join(map(file_name, self.images.values()))

    def showing(self, images: Mapping[str, str]) -> TaskQuestion:
        """The same question with its images at these addresses."""
        return replace(self, shown=replace(self.shown, images=images))

    def vote(self, given: object) -> str | None:
        """The vote in a model's answer, a JSON value; ``None`` if it is no valid answer."""
        return self.question.control.vote(given, self.shown)

    def regions(self, vote: str) -> list[dict[str, Any]]:
        """The result items of a prediction that says ``vote``.

        Raises:
            InvalidParameterError: the vote does not answer the question.
        """
        question = self.question
        common = {
            "from_name": question.name,
            "to_name": question.to_name,
            "type": question.tag.lower(),
        }
        return [common | item for item in question.control.items(vote, self.shown)]
