"""Labelled spans of a text: asked for as quotations, voted on by overlap."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backend.questions.controls.control import Item, Request, Shown
from backend.questions.controls.naming import label_named
from backend.questions.label import Label
from backend.questions.objects.field import Field
from backend.questions.objects.located import Located
from backend.questions.objects.paragraphs import STRIDE
from backend.questions.spans.quotes import Quotable
from backend.questions.spans.rulers import RULERS, HyperTextRuler, Ruler
from camvo.errors import InvalidParameterError
from camvo.votes.aggregation import Aggregation
from camvo.votes.span_vote import SpanVote
from camvo.votes.spans import Span, read_spans, write_spans

_RULE = (
    "Mark every stretch of the field {field} that one of these labels fits, in the order of the text, as a "
    'JSON array; an empty one if there is none. "quote" is copied from the text, character by character, and '
    'as short as the label allows. "before" is the few words right before it if the same words occur '
    'elsewhere, too, and "" otherwise:'
)


@dataclass(frozen=True, slots=True)
class Spans:
    """Any number of labelled spans; the vote is what :func:`camvo.votes.spans.write_spans` makes of them.

    Attributes:
        labels: at least one, with distinct values and texts, in the order of the config.
        key: where Label Studio's value keeps the label: ``{"labels": ["PER"], …}``.
        field: the text in which spans are marked.
        inline: the object tag's attribute, for HyperText.
        conditional: whether annotators see the control only sometimes. If they always do, one that marked
            nothing has said that there is nothing to mark.
    """

    labels: tuple[Label, ...]
    key: str
    field: Field
    inline: bool = False
    conditional: bool = False

    @property
    def aggregation(self) -> Aggregation:
        """A vote on every place that is marked."""
        return SpanVote()

    @property
    def request(self) -> Request:
        """A list of quotations with a label each."""
        texts = [label.text for label in self.labels]
        properties = {
            "quote": {"type": "string"},
            "before": {"type": "string"},
            "label": {"type": "string", "enum": texts},
        }
        entry = {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
        return Request(
            rule=_RULE.format(field=json.dumps(self.field.key, ensure_ascii=False)),
            form=[{"quote": "<words of the text>", "before": "", "label": "<label>"}],
            schema={"type": "array", "items": entry},
            labels=tuple((label.text, label.hint) for label in self.labels),
        )

    def options(self, _: Shown) -> tuple[str, ...]:
        """The labels' values."""
        return tuple(label.value for label in self.labels)

    def vote(self, given: object, shown: Shown) -> str | None:
        """The quotations that are found in the text; nothing if there are some and none is found.

        One that stands in the text several times, with no words before it that tell which is meant, is the
        first that the same label has not got yet: answers go through the text from its beginning.
        """
        if not isinstance(given, list):
            return None
        located = self._ruler.located(self.field, shown.data)
        quotable = Quotable(located.text)
        spans: set[Span] = set()
        for entry in given:
            possible = self._possible(entry, quotable, located)
            spans.update([span for span in possible if span not in spans][:1])
        return None if given and not spans else write_spans(spans)

    def items(self, vote: str, shown: Shown) -> list[dict[str, Any]]:
        """An item for each span, with the words that it holds."""
        spans, known = read_spans(vote), {label.value for label in self.labels}
        if any(span.label not in known for span in spans):
            raise InvalidParameterError("a span's label is not one of the question's")
        located = self._ruler.located(self.field, shown.data)
        return [
            {
                "value": {
                    **self._ruler.value(span.start, span.end),
                    "text": located.between(span.start, span.end),
                    self.key: [span.label],
                }
            }
            for span in spans
        ]

    def answer(self, items: Sequence[Item]) -> str | None:
        """The spans of all items, one for each label of an item."""
        if not items and self.conditional:
            return None
        spans = [self._marked(item.get("value")) for item in items]
        return None if None in spans else write_spans(span for found in spans if found for span in found)

    def place(self, value: Mapping[str, Any]) -> Span:
        """Where an item of a prediction is, under no label."""
        start, end = self._ruler.bounds(value) or (0, 0)
        return Span(start, end, "")

    @property
    def _ruler(self) -> Ruler:
        return HyperTextRuler(self.inline) if self.field.tag == "HyperText" else RULERS[self.field.tag]

    def _possible(self, entry: object, quotable: Quotable, located: Located) -> list[Span]:
        """The spans that an entry of a model's answer can mean, in the order of the text."""
        if not isinstance(entry, Mapping):
            return []
        words, before, name = (entry.get(key) for key in ("quote", "before", "label"))
        label = label_named(self.labels, name) if isinstance(name, str) else None
        if label is None or not isinstance(words, str):
            return []
        places = quotable.places(words, before if isinstance(before, str) else "")
        spans = (Span(*located.stored(*place), label) for place in places)
        return [span for span in spans if span.start // STRIDE == (span.end - 1) // STRIDE]

    def _marked(self, value: object) -> list[Span] | None:
        """The spans of one item of a human's; ``None`` for one that cannot be read."""
        if not isinstance(value, Mapping):
            return None
        bounds, labels = self._ruler.bounds(value), value.get(self.key, [])
        known = {label.value for label in self.labels}
        if bounds is None or not isinstance(labels, list) or not all(label in known for label in labels):
            return None
        return [Span(*bounds, label) for label in labels]
