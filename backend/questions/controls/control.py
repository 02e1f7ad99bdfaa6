"""What a question needs to know of its control tag: how it is asked, counted, and stored by Label Studio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from camvo.votes.aggregation import Aggregation

Item = Mapping[str, Any]
"""A result item of a prediction or an annotation, as Label Studio stores it."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What one task shows for a question.

    Attributes:
        texts: field key → plain text, in the order of the question's fields; images are not among them.
        data: the task's data, which the texts were read from.
        images: field key → the address of an image, in the order of the question's fields.
    """

    texts: Mapping[str, str]
    data: Mapping[str, object]
    images: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Request:
    """How models are asked. It is the same for every task, so that providers can cache the system message.

    Attributes:
        rule: one line that says what to answer. It begins with none of the prompt's prefixes.
        form: the answer's place in the example of the form, JSON: ``"<label>"``, ``["<label>"]``.
        schema: the JSON schema of the answer. Only ``type``, ``enum`` of strings, ``items``, ``properties``,
            ``required`` and ``additionalProperties``: not every provider takes more, and
            :meth:`Control.vote` checks everything anyway.
        labels: what may be named, pairs of visible text and hint; listed after the rule.
    """

    rule: str
    form: object
    schema: Mapping[str, object]
    labels: tuple[tuple[str, str | None], ...] = ()


class Control(Protocol):
    """One control as its XML describes it.

    A frozen dataclass whose fields are numbers, strings and tuples of them: they are its identity.

    A vote is a string in a canonical form, so that equal answers are equal strings. The core compares votes
    through the aggregation and never looks into them.
    """

    @property
    def aggregation(self) -> Aggregation:
        """How votes are counted; ``camvo.votes.registry`` must know it."""

    @property
    def request(self) -> Request:
        """How models are asked."""

    def options(self, shown: Shown, /) -> tuple[str, ...]:
        """What votes name: labels in the order that breaks ties, items to rank, or nothing.

        Raises:
            TaskError: this task leaves nothing to decide.
        """

    def vote(self, given: object, shown: Shown, /) -> str | None:
        """The vote in a model's answer, a JSON value; ``None`` for anything but a valid answer."""

    def items(self, vote: str, shown: Shown, /) -> list[dict[str, Any]]:
        """The result items that say ``vote``: none, one or several.

        ``from_name``, ``to_name`` and ``type`` are filled in where an item lacks them.

        Raises:
            InvalidParameterError: the vote does not answer this control.
        """

    def answer(self, items: Sequence[Item], /) -> str | None:
        """The vote in a human's annotation, from the result items of this control and its type.

        Called with no items as well: the annotation was submitted and the control left alone. ``None`` where
        that, or what the items hold, is no valid answer.
        """


def content(items: Sequence[Item], key: str) -> object:
    """What the value of the one item holds under ``key``; ``None`` if there is not exactly one item."""
    if len(items) != 1 or not isinstance(items[0].get("value"), Mapping):
        return None
    return items[0]["value"].get(key)
