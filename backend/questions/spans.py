"""Labelled spans of a text: asked for as quotations, voted on by overlap."""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, islice
from types import MappingProxyType
from typing import Any, Protocol

from backend.questions import objects
from backend.questions.controls import AnswerFormat, ResultItem, TaskContent
from backend.questions.naming import label_named
from backend.questions.objects import STRIDE, Field, LocatedText, scalar_text
from backend.questions.xml import Label
from camvo.errors import InvalidParameterError
from camvo.votes.aggregation import Aggregation
from camvo.votes.spans import SAME_PLACE_OVERLAP, Span, SpanVote, read_spans, span_overlap, write_spans

_BLANKS = re.compile(r"\s+")
_PLAIN = str.maketrans(
    {**dict.fromkeys("’‘‛´`", "'"), **dict.fromkeys("“”„«»", '"'), **dict.fromkeys("‐‑‒–—−", "-")}
)
"""Marks that models write in their plain form."""

_MOST_SPANS = 1000
"""The most spans in a model's answer. A longer one is no answer: it would take long to read."""

_MOST_NESTED = 10
"""The most spans of a model's answer that share a character. To count the votes on more takes minutes."""

_MOST_PLACES = 1000
"""The most places of one quotation that are considered, the first ones of the text."""

_ALL_PLACES = 200_000
"""Places of all quotations of an answer that are compared with what each says stands before it. Once they are
used up, only the first :data:`_MOST_PLACES` of each further quotation are."""

_LONG = 100
"""A longer quotation may not overlap itself in the text: each such place takes long to compare."""


class _QuotedText:
    """A text in which quotations are located."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._known: dict[tuple[str, str], list[tuple[int, int]]] = {}
        self._left = _ALL_PLACES

    def places(self, quote: str, before: str = "") -> list[tuple[int, int]]:
        """Return the places of a quotation as (start, end), in the order of the text.

        Exact occurrences are preferred to those that differ in letter case, white space, kinds of quotes and
        hyphens, or Unicode forms. Among them, those
        that begin and end at a word boundary are preferred: a quoted "he" is not the one in "the".
        """
        words, context = quote.strip(), _folded(before).strip()
        if (words, context) not in self._known:
            self._known[words, context] = self._find(words, context) if words else []
        return self._known[words, context]

    def _find(self, words: str, context: str) -> list[tuple[int, int]]:
        places = self._compared((start, start + len(words)) for start in _occurrences(self.text, words))
        places = places or self._compared(self._folded_places(words))
        places = [place for place in places if self._at_word_boundaries(*place)] or places
        if context and len(places) > 1:
            places = [place for place in places if self._follows(context, place[0])]
        return places[:_MOST_PLACES]

    def _compared(self, places: Iterator[tuple[int, int]]) -> list[tuple[int, int]]:
        """The places that the answer may still have compared."""
        first = list(islice(places, max(self._left, _MOST_PLACES)))
        self._left -= len(first)
        return first

    def _follows(self, context: str, start: int) -> bool:
        """Whether folded words are right before a position; reads no more of the text than they are long."""
        text, origins = _folded_text(self.text)
        end = bisect_left(origins, start)
        end -= end > 0 and text[end - 1] == " "
        return text.endswith(context, 0, end)

    def _folded_places(self, words: str) -> Iterator[tuple[int, int]]:
        """The places in the folded text that do not end within a character, as "cafe" does in "café"."""
        sought = _folded(words)
        text, origins = _folded_text(self.text)
        for start in _occurrences(text, sought):
            end = start + len(sought)
            if end == len(text) or origins[end] != origins[end - 1]:
                yield origins[start], origins[end - 1] + 1

    def _at_word_boundaries(self, start: int, end: int) -> bool:
        edges = ((start - 1, start), (end - 1, end))
        return not any(
            left >= 0 and right < len(self.text) and self.text[left].isalnum() and self.text[right].isalnum()
            for left, right in edges
        )


@lru_cache(maxsize=32)
def _folded_text(text: str) -> tuple[str, tuple[int, ...]]:
    """Return the text folded with single spaces, and the original index of each of its characters."""
    characters: list[str] = []
    origins: list[int] = []
    for index, character in enumerate(text):
        if character.isspace():
            folded = " " if characters and characters[-1] != " " else ""
        else:
            folded = _plain(character)
        characters.extend(folded)
        origins.extend([index] * len(folded))
    return "".join(characters), tuple(origins)


def _occurrences(text: str, sought: str) -> Iterator[int]:
    start, step = text.find(sought), len(sought) if len(sought) > _LONG else 1
    while start >= 0:
        yield start
        start = text.find(sought, start + step)


def _folded(text: str) -> str:
    return _BLANKS.sub(" ", _plain(text))


def _plain(text: str) -> str:
    # Decomposed, since texts are folded by the character, and a letter may be apart from its accent.
    return unicodedata.normalize("NFKD", text).translate(_PLAIN).casefold()


class _Ruler(Protocol):
    """The positions of one object tag."""

    def locate(self, field: Field, data: Mapping[str, object], /) -> LocatedText:
        """Return the text in which spans can be marked, with its positions."""

    def value(self, start: int, end: int, /) -> dict[str, Any]:
        """Return two positions as Label Studio stores them."""

    def bounds(self, value: Mapping[str, Any], /) -> tuple[int, int] | None:
        """Return the two positions in a stored value; ``None`` if they are missing."""


@dataclass(frozen=True, slots=True)
class _TextRuler:
    """Text: positions are Unicode code points of the task's string."""

    def locate(self, field: Field, data: Mapping[str, object]) -> LocatedText:
        """Return the whole text."""
        text = field.text(data)
        return LocatedText(text, range(len(text)))

    def value(self, start: int, end: int) -> dict[str, Any]:
        """Return the entries ``start`` and ``end``."""
        return {"start": start, "end": end}

    def bounds(self, value: Mapping[str, Any]) -> tuple[int, int] | None:
        """Return the entries ``start`` and ``end``."""
        return _pair(value.get("start"), value.get("end"))


@dataclass(frozen=True, slots=True)
class _HyperTextRuler:
    """HyperText: positions are ``globalOffsets``, which count through all text nodes."""

    inline: bool = False

    def locate(self, field: Field, data: Mapping[str, object]) -> LocatedText:
        """Return the text that a reader sees."""
        return objects.locate_html(scalar_text(field.content(data)) or "", inline=self.inline)

    def value(self, start: int, end: int) -> dict[str, Any]:
        """Return ``globalOffsets`` with the other entries that the editor's model requires."""
        offsets = {"start": start, "end": end}
        return {"start": "", "end": "", "startOffset": start, "endOffset": end, "globalOffsets": offsets}

    def bounds(self, value: Mapping[str, Any]) -> tuple[int, int] | None:
        """Return ``globalOffsets``, which the editor always writes."""
        offsets = value.get("globalOffsets")
        return _pair(offsets.get("start"), offsets.get("end")) if isinstance(offsets, Mapping) else None


@dataclass(frozen=True, slots=True)
class _ParagraphsRuler:
    """Paragraphs: the stored position is a line's index, as a string, and an offset in the line."""

    def locate(self, field: Field, data: Mapping[str, object]) -> LocatedText:
        """Return the words without the speakers' names."""
        return objects.locate_dialogue(field.content(data), field.name_key, field.text_key)

    def value(self, start: int, end: int) -> dict[str, Any]:
        """Return the line as both start and end, with two offsets."""
        line = str(start // STRIDE)
        return {"start": line, "end": line, "startOffset": start % STRIDE, "endOffset": end % STRIDE}

    def bounds(self, value: Mapping[str, Any]) -> tuple[int, int] | None:
        """Return the positions of a span within one line; the editor no longer makes longer ones."""
        line, last = value.get("start"), value.get("end")
        offsets = _pair(value.get("startOffset"), value.get("endOffset"))
        if offsets is None or str(line) != str(last) or not str(line).isdecimal() or offsets[1] >= STRIDE:
            return None
        return int(str(line)) * STRIDE + offsets[0], int(str(line)) * STRIDE + offsets[1]


RULERS: Mapping[str, _Ruler] = MappingProxyType(
    {"Text": _TextRuler(), "HyperText": _HyperTextRuler(), "Paragraphs": _ParagraphsRuler()}
)
"""Object tag → its ruler."""


def _pair(start: object, end: object) -> tuple[int, int] | None:
    if type(start) is int and type(end) is int and 0 <= start < end:
        return start, end
    return None


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
            rule=self._rule(json.dumps(self.field.key, ensure_ascii=False)),
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
        if not isinstance(answer, list) or len(answer) > _MOST_SPANS:
            return None
        located = self._ruler.locate(self.field, content.data)
        if (redacted := content.redacted.get(self.field.key)) is not None:
            located = redacted.located(located)
        quoted_text = _QuotedText(located.text)
        spans: set[Span] = set()
        for entry in answer:
            new = (span for span in self._candidates(entry, quoted_text, located) if span not in spans)
            spans.update(islice(new, 1))
        return None if (answer and not spans) or _depth(spans) > _MOST_NESTED else write_spans(spans)

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

    def _rule(self, field: str) -> str:
        """The line that says what to answer."""
        return _RULE.format(field=field)

    @property
    def _ruler(self) -> _Ruler:
        return _HyperTextRuler(self.inline) if self.field.tag == "HyperText" else RULERS[self.field.tag]

    def _candidates(self, entry: object, quoted_text: _QuotedText, located: LocatedText) -> Iterator[Span]:
        """The spans that an entry of a model's answer can mean, in the order of the text."""
        if not isinstance(entry, Mapping):
            return
        words, before, name = (entry.get(key) for key in ("quote", "before", "label"))
        words = entry.get("text") if words is None else words
        label = label_named(self.labels, name) if isinstance(name, str) else None
        if label is None or not isinstance(words, str):
            return
        for place in quoted_text.places(words, before if isinstance(before, str) else ""):
            span = Span(*located.positions_of(*place), label)
            if span.start // STRIDE == (span.end - 1) // STRIDE:
                yield span

    def _annotated_spans(self, value: object) -> list[Span] | None:
        """Return the spans of one item of an annotation; ``None`` if it cannot be read."""
        if not isinstance(value, Mapping):
            return None
        bounds, labels = self._ruler.bounds(value), value.get(self.key, [])
        known = [label.value for label in self.labels]  # a list, as an annotation may hold anything
        if bounds is None or not isinstance(labels, list) or not all(label in known for label in labels):
            return None
        return [Span(*bounds, label) for label in labels]


def _depth(spans: Iterable[Span]) -> int:
    """The most spans that share a position."""
    ends = [(span.end, -1) for span in spans]  # before the starts at the same position
    changes = sorted([*ends, *((span.start, 1) for span in spans)])
    return max(accumulate(change for _, change in changes), default=0)


_REGION_CHOICES_RULE = (
    "For every stretch of the field {field} that you mark for {controls}, say here which of these labels "
    'fits it, as a JSON array; an empty one if there is none. "quote" and "before" are what they are there:'
)


@dataclass(frozen=True, slots=True)
class RegionChoices(Spans):
    """A class for each marked span: the votes are spans labelled with their classes.

    Attributes:
        controls: the names of the controls whose regions get a class.
        only: the labels whose regions get a class; empty for all labels.
        several: whether a region may have several classes.
    """

    controls: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    several: bool = False

    def _rule(self, field: str) -> str:
        return _REGION_CHOICES_RULE.format(
            field=field, controls=json.dumps(", ".join(self.controls), ensure_ascii=False)
        )

    def attach_to_regions(
        self, regions: Sequence[ResultItem], items: Sequence[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return the items of a prediction that give the regions their classes.

        Args:
            regions: the regions of the same prediction; each has an ``id``.
            items: this control's own :meth:`result_items`.
        """
        attached = []
        for region in regions:
            if self.only and not set(self.only) & set(region["value"].get(region["type"], ())):
                continue
            place = self.place(region["value"])
            near = sorted(items, key=lambda item: -span_overlap(place, self.place(item["value"])))
            near = [
                item for item in near if span_overlap(place, self.place(item["value"])) > SAME_PLACE_OVERLAP
            ]
            if near:
                chosen = near if self.several else near[:1]
                classes = list(dict.fromkeys(label for item in chosen for label in item["value"]["choices"]))
                position = {key: part for key, part in region["value"].items() if key != region["type"]}
                attached.append({**near[0], "id": region["id"], "value": {**position, "choices": classes}})
        return attached
