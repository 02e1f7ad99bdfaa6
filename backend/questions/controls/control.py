"""The interface of a control: how models are asked, how votes are counted, what Label Studio stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from backend.questions.redaction.redacted_text import RedactedText
from camvo.votes.aggregation import Aggregation

ResultItem = Mapping[str, Any]
"""One item in the ``result`` of a prediction or an annotation, as Label Studio stores it."""


@dataclass(frozen=True, slots=True)
class TaskContent:
    """What one task shows for a question.

    Attributes:
        texts: field key → plain text as models see it, in the order of the question's fields, without images.
        data: the task's data, which the texts come from.
        images: field key → address of an image, in the order of the question's fields.
        redacted: field key → the text with the way back to the original, if texts are redacted.
    """

    texts: Mapping[str, str]
    data: Mapping[str, object]
    images: Mapping[str, str] = field(default_factory=dict)
    redacted: Mapping[str, RedactedText] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """The answer that models are asked for. It is equal for all tasks, so providers can cache the prompt.

    Attributes:
        rule: one line that says what to answer. It must not begin with one of the prompt's prefixes.
        form: the JSON value that stands for the answer in the example: ``"<label>"``, ``["<label>"]``.
        schema: the JSON schema of the answer. It only uses ``type``, ``enum`` of strings, ``items``,
            ``properties``, ``required`` and ``additionalProperties``: not every provider accepts more.
            :meth:`Control.vote_from_answer` checks the rest.
        labels: the labels that may be named, pairs of visible text and hint; listed below the rule.
        packs: whether one prompt may ask for it about several tasks: it is a short JSON value, no free text.
    """

    rule: str
    form: object
    schema: Mapping[str, object]
    labels: tuple[tuple[str, str | None], ...] = ()
    packs: bool = True


class Control(Protocol):
    """One control, read from its XML element.

    Implementations are frozen dataclasses whose fields are numbers, strings and tuples of them. The names and
    values of the fields enter the question's digest, so renaming a field starts a new epoch.

    A vote is a string in canonical form: equal answers are equal strings. ``camvo`` compares votes through
    the aggregation and never parses them itself.
    """

    @property
    def aggregation(self) -> Aggregation:
        """How votes are combined; its name must be known to ``camvo.votes.registry``."""

    @property
    def answer_format(self) -> AnswerFormat:
        """The answer that models are asked for."""

    def options(self, content: TaskContent, /) -> tuple[str, ...]:
        """Return what votes can name: labels in tie-breaking order, items to rank, or nothing.

        Raises:
            TaskError: the task leaves nothing to decide.
        """

    def vote_from_answer(self, answer: object, content: TaskContent, /) -> str | None:
        """Return the vote in a model's answer, a JSON value; ``None`` if the answer is not valid."""

    def result_items(self, vote: str, content: TaskContent, /) -> list[dict[str, Any]]:
        """Return the result items that express ``vote``: none, one or several.

        ``from_name``, ``to_name`` and ``type`` may be missing; the caller fills them in.

        Raises:
            InvalidParameterError: the vote does not answer this control.
        """

    def vote_from_annotation(self, items: Sequence[ResultItem], /) -> str | None:
        """Return the vote in a human's annotation, or ``None`` if there is no valid answer.

        Args:
            items: the annotation's result items for this control. Empty if the annotator left it alone.
        """


def item_content(items: Sequence[ResultItem], key: str) -> object:
    """Return the entry ``key`` of the only item's value; ``None`` unless there is exactly one item."""
    if len(items) != 1 or not isinstance(items[0].get("value"), Mapping):
        return None
    return items[0]["value"].get(key)
