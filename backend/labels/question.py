"""One control tag of a label config, as a question that can be voted on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backend.labels.field import Field
from backend.labels.label import Label
from backend.labels.tags import SUPPORTED
from camvo.errors import EmptyTextError, InvalidParameterError


@dataclass(frozen=True, slots=True)
class Question:
    """A control tag: what is asked, which labels there are, and which fields of the task it is about.

    ``name`` and ``to_name`` are Label Studio's ``from_name`` and ``to_name``. ``labels`` are at least two,
    with distinct values and texts, in the order of the config. ``fields`` starts with the object that the
    control is attached to. ``instructions`` is the control's attribute ``camvo_instructions``.
    """

    name: str
    to_name: str
    tag: str
    labels: tuple[Label, ...]
    fields: tuple[Field, ...]
    instructions: str | None = None

    def texts(self, data: Mapping[str, object]) -> dict[str, str]:
        """The plain text of every field: key → text, in the order of ``fields``.

        The first field is what is labelled, so it must say something; the others may be blank.

        Raises:
            MissingFieldError: the task's data lacks a key, or holds no text there.
            EmptyTextError: the first field is blank.
        """
        texts = {field.key: field.text(data) for field in self.fields}
        first = self.fields[0]
        if not texts[first.key].strip():
            raise EmptyTextError(
                "there is no text to label", where=first.where, fix="skip or delete the task"
            )
        return texts

    @property
    def digest(self) -> str:
        """SHA-256 (hex) over all that makes the question what it is to a model."""
        identity = [
            self.name,
            self.tag.lower(),
            [[label.value, label.text, label.hint] for label in self.labels],
            [[field.key, field.tag, field.name_key, field.text_key] for field in self.fields],
            self.instructions,
        ]
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()

    def region(self, label: str) -> dict[str, object]:
        """The result item of a prediction that says ``label``, a ``Label.value``.

        Raises:
            InvalidParameterError: the question has no such label.
        """
        for known in self.labels:
            if known.value == label:
                return {
                    "from_name": self.name,
                    "to_name": self.to_name,
                    "type": self.tag.lower(),
                    "value": SUPPORTED[self.tag.lower()].value(known),
                }
        raise InvalidParameterError("the label is not one of the question's", where=self.name)

    def answer(self, result: Sequence[object]) -> str | None:
        """The label value that an annotation's ``result`` gives to this question.

        ``None`` if the control was left alone, was answered more than once, or not with exactly one label of
        the config as it is now.
        """
        items = [item for item in result if isinstance(item, Mapping) and item.get("from_name") == self.name]
        if len(items) != 1 or items[0].get("type") != self.tag.lower():
            return None
        content = items[0].get("value")
        stored = SUPPORTED[self.tag.lower()].stored(content) if isinstance(content, Mapping) else None
        return stored if any(label.value == stored for label in self.labels) else None
