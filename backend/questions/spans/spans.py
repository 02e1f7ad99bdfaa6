"""Labelled spans of a text: asked for as quotations, voted on by overlap."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backend.questions.controls.control import AnswerFormat, ResultItem, TaskContent
from backend.questions.controls.label_matching import label_named
from backend.questions.label import Label
from backend.questions.objects.field import Field
from backend.questions.objects.located_text import LocatedText
from backend.questions.objects.paragraphs import STRIDE
from backend.questions.spans.quotes import QuotedText
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
    """Any number of labelled spans; the vote is written by :func:`camvo.votes.spans.write_spans`.

    Attributes:
        labels: at least one, with distinct values and texts, in the order of the config.
        key: the entry of a result item's value that holds the label: ``{"labels": ["PER"], …}``.
        field: the text in which spans are marked.
        inline: for HyperText, the object tag's attribute ``inline``.
        conditional: whether annotators see the control only under a condition. If they always see it,
            marking nothing is the answer that there is nothing to mark.
    """

    labels: tuple[Label, ...]
    key: str
    field: Field
    inline: bool = False
    conditional: bool = False

    @property
    def aggregation(self) -> Aggregation:
        """A vote on every marked place."""
        return SpanVote()

    @property
    def answer_format(self) -> AnswerFormat:
        """A list of quotations, each with a label."""
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
        return AnswerFormat(
            rule=_RULE.format(field=json.dumps(self.field.key, ensure_ascii=False)),
            form=[{"quote": "<words of the text>", "before": "", "label": "<label>"}],
            schema={"type": "array", "items": entry},
            labels=tuple((label.text, label.hint) for label in self.labels),
            packs=False,
        )

    def options(self, _: TaskContent) -> tuple[str, ...]:
        """Return the labels' values."""
        return tuple(label.value for label in self.labels)

    def vote_from_answer(self, answer: object, content: TaskContent) -> str | None:
        """Return the quoted spans; ``None`` if the answer has quotations and the text has none of them.

        A quotation may occur several times in the text. If the words before it do not tell which occurrence
        is meant, the first one that does not have this label yet is taken, because answers follow the text.
        """
        if not isinstance(answer, list):
            return None
        located = self._ruler.locate(self.field, content.data)
        if (redacted := content.redacted.get(self.field.key)) is not None:
            located = redacted.located(located)
        quoted_text = QuotedText(located.text)
        spans: set[Span] = set()
        for entry in answer:
            candidates = self._candidates(entry, quoted_text, located)
            spans.update([span for span in candidates if span not in spans][:1])
        return None if answer and not spans else write_spans(spans)

    def result_items(self, vote: str, content: TaskContent) -> list[dict[str, Any]]:
        """Return one item per span, with the words of the span."""
        spans, known = read_spans(vote), {label.value for label in self.labels}
        if any(span.label not in known for span in spans):
            raise InvalidParameterError("a span's label is not one of the question's")
        located = self._ruler.locate(self.field, content.data)
        return [
            {
                "value": {
                    **self._ruler.value(span.start, span.end),
                    "text": located.words_between(span.start, span.end),
                    self.key: [span.label],
                }
            }
            for span in spans
        ]

    def vote_from_annotation(self, items: Sequence[ResultItem]) -> str | None:
        """Return the spans of all items, one span for each label of an item."""
        if not items and self.conditional:
            return None
        spans_by_item = [self._annotated_spans(item.get("value")) for item in items]
        if None in spans_by_item:
            return None
        return write_spans(span for spans in spans_by_item if spans for span in spans)

    def place(self, value: Mapping[str, Any]) -> Span:
        """Return the place of a prediction's item as a span without a label."""
        start, end = self._ruler.bounds(value) or (0, 0)
        return Span(start, end, "")

    @property
    def _ruler(self) -> Ruler:
        return HyperTextRuler(self.inline) if self.field.tag == "HyperText" else RULERS[self.field.tag]

    def _candidates(self, entry: object, quoted_text: QuotedText, located: LocatedText) -> list[Span]:
        """Return the spans that an entry of a model's answer can mean, in the order of the text."""
        if not isinstance(entry, Mapping):
            return []
        words, before, name = (entry.get(key) for key in ("quote", "before", "label"))
        label = label_named(self.labels, name) if isinstance(name, str) else None
        if label is None or not isinstance(words, str):
            return []
        places = quoted_text.places(words, before if isinstance(before, str) else "")
        spans = (Span(*located.positions_of(*place), label) for place in places)
        return [span for span in spans if span.start // STRIDE == (span.end - 1) // STRIDE]

    def _annotated_spans(self, value: object) -> list[Span] | None:
        """Return the spans of one item of an annotation; ``None`` if it cannot be read."""
        if not isinstance(value, Mapping):
            return None
        bounds, labels = self._ruler.bounds(value), value.get(self.key, [])
        known = {label.value for label in self.labels}
        if bounds is None or not isinstance(labels, list) or not all(label in known for label in labels):
            return None
        return [Span(*bounds, label) for label in labels]
