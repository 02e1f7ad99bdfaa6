"""Controls, and their answers as votes."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol

from backend.questions.naming import label_named, labels_named, unwrapped, usual_entries
from backend.questions.redaction import RedactedText
from backend.questions.xml import Element, Label, Tree, attribute, is_true
from camvo.errors import InvalidParameterError
from camvo.votes.aggregation import Aggregation
from camvo.votes.labels import ERRORS, LABEL_VOTE, MOST_STEPS, ErrorName, OrderedVote
from camvo.votes.numbers import LARGEST_MAGNITUDE, NumericVote, OpenNumericVote, read_number, write_number
from camvo.votes.sets import SubsetVote, read_subset

ResultItem = Mapping[str, Any]
"""One item in the ``result`` of a prediction or an annotation, as Label Studio stores it."""


@dataclass(frozen=True, slots=True)
class TaskContent:
    """What one task shows for a question.

    Attributes:
        texts: field key → plain text as models see it, in the order of the page, without images.
        data: the task's data, which the texts come from.
        images: field key → address of an image, in the order of the page.
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
        form: the JSON value that represents the answer in the example: ``"<label>"``, ``["<label>"]``.
        schema: the JSON schema of the answer. It only uses ``type``, ``enum``, ``minimum``, ``maximum``,
            ``items``, ``properties``, ``required`` and ``additionalProperties``. A provider that accepts less
            is asked without it; :meth:`Control.vote_from_answer` checks the answer anyway.
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


class ControlTag(NamedTuple):
    """How a control tag is read. The functions take the control's element and the whole config."""

    obstacle: Callable[[Element, Tree], str | None]
    """Says why the element cannot be voted on. :mod:`backend.questions.tags.registry` checks its name, its
    ``toName`` and its objects."""

    read_control: Callable[[Element, Tree], Control]
    """Returns the control of an element without an obstacle."""


def item_content(items: Sequence[ResultItem], key: str) -> object:
    """Return the entry ``key`` of the only item's value; ``None`` unless there is exactly one item."""
    if len(items) != 1 or not isinstance(items[0].get("value"), Mapping):
        return None
    return items[0]["value"].get(key)


_FEWEST = 2
ONE_LABEL = "<label>"
"""Stands for a label in the example of the answer's form."""

_ONE_RULE = "Choose exactly one of these labels; if none fits well, the closest:"
_ANY_RULE = "Choose every one of these labels that fits, as a JSON array; an empty one if none does:"


def label_set_obstacle(labels: Sequence[Label], fewest: int = _FEWEST) -> str | None:
    """Return why a set of labels cannot be voted on, or ``None``. It needs at least ``fewest`` labels."""
    if len(labels) < fewest:
        few = "no label" if fewest == 1 else "fewer than two labels"
        return f"it has {few}, so there is nothing to vote on"
    stored = Counter(label.value for label in labels)
    visible = Counter(label.text for label in labels)
    for kind, counts, own in (("are stored as", stored, "an alias, or value,"), ("read", visible, "a value")):
        text, count = counts.most_common(1)[0]
        if count > 1:
            return f'{count} of its labels {kind} "{text}": give each {own} of its own'
    return None


def lists_labels(control: Control) -> bool:
    """Whether a control's answer is one label of a list, or several."""
    return control.answer_format.form in (ONE_LABEL, [ONE_LABEL])


@dataclass(frozen=True)
class OneOf:
    """Exactly one label; the vote is its ``value``.

    Attributes:
        labels: at least two, with distinct values and texts, in the order of the config.
        key: the entry of a result item's value that holds the label: ``{"choices": ["A"]}``.
    """

    labels: tuple[Label, ...]
    key: str

    @property
    def aggregation(self) -> Aggregation:
        """The weighted vote of Algorithm 1."""
        return LABEL_VOTE

    @cached_property
    def answer_format(self) -> AnswerFormat:
        """One of the visible texts."""
        schema = {"type": "string", "enum": [label.text for label in self.labels]}
        return AnswerFormat(_ONE_RULE, ONE_LABEL, schema, _texts_and_hints(self.labels))

    def options(self, _: TaskContent) -> tuple[str, ...]:
        """Return the labels' values."""
        return tuple(label.value for label in self.labels)

    def vote_from_answer(self, answer: object, _: TaskContent) -> str | None:
        """Return the value of the label that the answer names."""
        return label_named(self.labels, answer)

    def result_items(self, vote: str, _: TaskContent) -> list[dict[str, Any]]:
        """Return one item with one label."""
        return [{"value": {self.key: [_label_of(self.labels, vote).stored]}}]

    def vote_from_annotation(self, items: Sequence[ResultItem]) -> str | None:
        """Return the label's value if the annotator chose exactly one."""
        chosen = _chosen_values(self.labels, self.key, items)
        return chosen[0] if chosen is not None and len(chosen) == 1 else None


@dataclass(frozen=True)
class AnyOf:
    """Any number of labels; the vote is a JSON array of their values, in the order of the config.

    Attributes:
        labels: as for :class:`OneOf`.
        key: as for :class:`OneOf`.
        conditional: whether annotators see the control only under a condition. If they always see it,
            choosing nothing is the answer that no label fits.
    """

    labels: tuple[Label, ...]
    key: str
    conditional: bool = False

    @property
    def aggregation(self) -> Aggregation:
        """A yes/no vote on each label."""
        return SubsetVote(len(self.labels))

    @cached_property
    def answer_format(self) -> AnswerFormat:
        """A list of visible texts."""
        schema = {"type": "array", "items": {"type": "string", "enum": [label.text for label in self.labels]}}
        return AnswerFormat(_ANY_RULE, [ONE_LABEL], schema, _texts_and_hints(self.labels))

    def options(self, _: TaskContent) -> tuple[str, ...]:
        """Return the labels' values."""
        return tuple(label.value for label in self.labels)

    def vote_from_answer(self, answer: object, _: TaskContent) -> str | None:
        """Return the labels that the answer names; an unknown one is left out if there are others."""
        named = labels_named(self.labels, answer)
        return None if named is None else self._canonical(named)

    def result_items(self, vote: str, _: TaskContent) -> list[dict[str, Any]]:
        """Return one item with all labels; no item if no label fits."""
        chosen = [_label_of(self.labels, value).stored for value in read_subset(vote)]
        return [{"value": {self.key: chosen}}] if chosen else []

    def vote_from_annotation(self, items: Sequence[ResultItem]) -> str | None:
        """Return the labels of the only item."""
        if not items:
            return None if self.conditional else self._canonical(())
        chosen = _chosen_values(self.labels, self.key, items)
        return None if chosen is None else self._canonical(chosen)

    def _canonical(self, chosen: Sequence[str]) -> str:
        return json.dumps(
            [label.value for label in self.labels if label.value in chosen],
            ensure_ascii=False,
            separators=(",", ":"),
        )


@dataclass(frozen=True)
class _OneOfScale(OneOf):
    """Exactly one label of a scale, whose lowest label comes first."""

    error: ErrorName = "exact"

    @property
    def aggregation(self) -> Aggregation:
        """The vote on a scale."""
        return OrderedVote(tuple(label.value for label in self.labels), self.error)


def _label_of(labels: Sequence[Label], value: str) -> Label:
    for label in labels:
        if label.value == value:
            return label
    raise InvalidParameterError("the label is not one of the question's")


def _chosen_values(labels: Sequence[Label], key: str, items: Sequence[ResultItem]) -> list[str] | None:
    """Return the label values in an annotation's only result item; ``None`` if an entry is not a label.

    Label Studio stores the inner nodes of nested labels beside the leaves. An inner node counts as no label,
    and it is accepted only together with a leaf below it.
    """
    entries = item_content(items, key)
    if not isinstance(entries, list):
        return None
    known = {json.dumps(label.stored): label for label in labels}
    chosen = {entry: known[entry] for entry in map(json.dumps, entries) if entry in known}
    inner = {
        json.dumps(label.path[:end])
        for label in chosen.values()
        if label.path
        for end in range(1, len(label.path))
    }
    if any(json.dumps(entry) not in chosen.keys() | inner for entry in entries):
        return None
    return [label.value for label in chosen.values()]


def _texts_and_hints(labels: Sequence[Label]) -> tuple[tuple[str, str | None], ...]:
    return tuple((label.text, label.hint) for label in labels)


_FEWEST_STEPS: Final = 3
_WORDS: Final = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_SCALE = re.compile(
    rf"(?P<number>[+-]?\d+(?:\.\d+)?|{'|'.join(_WORDS)})\s*"
    r"(?:(?:/|out of|of)\s*(?P<most>\d+(?:\.\d+)?)\s*)?(?:stars?|points?)?",
    re.IGNORECASE,
)
"""A number, perhaps with the most that is possible."""

_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_GROUPS = (
    re.compile(r"[+-]?\d{1,3}(?P<mark>,)\d{3}(?:(?P=mark)\d{3})*(?P<decimals>\.\d+)?"),
    re.compile(r"[+-]?\d{1,3}(?P<mark>\.)\d{3}(?:(?P=mark)\d{3})*(?P<decimals>,\d+)?"),
    re.compile(r"[+-]?\d{1,3}(?P<mark>[ '’])\d{3}(?:(?P=mark)\d{3})*(?P<decimals>[.,]\d+)?"),
)
"""Numbers with marks between groups of three digits."""

_COMMA = re.compile(r"[+-]?\d+,\d+")
_DRESS = str.maketrans({"−": "-", "–": "-", "\u00a0": " ", "\u202f": " ", "\ufe0e": None, "\ufe0f": None})
_SIGNS: Final = " $€£¥*_"

_STARS = re.compile("(★{1,20}|⭐{1,20})(☆{0,20})")
"""Stars, full ones before empty ones."""

_MOST_LISTED = 100
"""The most numbers that a schema lists."""

_STEP_ERROR = 1e-8
"""The distance from a step that the editor accepts."""


@dataclass(frozen=True, slots=True)
class NumberControl:
    """A number within bounds.

    Attributes:
        key: the entry of a result item's value that holds the number: ``{"number": 7}``.
        low: the smallest allowed value; ``None`` for no bound.
        high: the largest allowed value; ``None`` for no bound.
        step: numbers are low (or 0) + n·step; ``None`` allows all numbers.
        tolerance: the error at which an answer earns nothing; ``None`` for the aggregation's default.
    """

    key: str
    low: float | None = None
    high: float | None = None
    step: float | None = None
    tolerance: float | None = None

    @property
    def aggregation(self) -> Aggregation:
        """The vote on a scale if there are few numbers, else the weighted median.

        The scale of the median is the range if both bounds are set.
        """
        if scale := self.scale:
            return OrderedVote(scale)
        if self.low is None or self.high is None:
            return OpenNumericVote(self.low, self.high, self.step, self.tolerance)
        largest = None if self.tolerance is None else min(self.tolerance, self.high - self.low)
        return NumericVote(self.low, self.high, "median", largest, self.step)

    @property
    def count(self) -> int | None:
        """How many numbers there are; ``None`` if bounds and step do not limit them."""
        if self.low is None or self.high is None or not self.step:
            return None
        return math.floor((self.high - self.low) / self.step + _STEP_ERROR) + 1

    @property
    def scale(self) -> tuple[str, ...]:
        """All numbers, from the lowest, if they are few and no tolerance is set; else none."""
        count = self.count
        if count is None or not _FEWEST_STEPS <= count <= MOST_STEPS or self.tolerance is not None:
            return ()
        low, step = self.low or 0.0, self.step or 0.0
        return tuple(write_number(low + number * step) for number in range(count))

    @property
    def answer_format(self) -> AnswerFormat:
        """A JSON number. The rule states the bounds, too, as not every provider accepts them in a schema."""
        whole = self._is_whole
        parts = [
            "Give a whole number" if whole else "Give a number",
            "" if self.low is None else f"from {self.low:.15g}",
            "" if self.high is None else f"up to {self.high:.15g}",
            "" if self.step in {None, 1.0} else f"in steps of {self.step:.15g}",
        ]
        rule = " ".join(part for part in parts if part) + ", in digits and without a unit."
        bounds = self._listed(whole=whole) or {
            name: int(bound) if bound.is_integer() else bound
            for name, bound in (("minimum", self.low), ("maximum", self.high))
            if bound is not None
        }
        return AnswerFormat(rule, "<number>", {"type": "integer" if whole else "number", **bounds})

    def _listed(self, *, whole: bool) -> dict[str, object]:
        """The schema's list of all numbers, if they are whole and few."""
        if not whole or self.step is None or self.low is None or self.high is None:
            return {}
        if self.step <= 0.0 or (self.high - self.low) / self.step >= _MOST_LISTED:
            return {}
        return {"enum": [*range(int(self.low), math.floor(self.high) + 1, int(self.step))]}

    def options(self, _: TaskContent) -> tuple[str, ...]:
        """Return the numbers of a scale; nothing if they are many."""
        return self.scale

    def vote_from_answer(self, answer: object, _: TaskContent) -> str | None:
        """Return the number if it is within the bounds and on a step; also ``"4/5"`` where 5 is the most."""
        return self._canonical(self._number(answer))

    def result_items(self, vote: str, _: TaskContent) -> list[dict[str, Any]]:
        """Return one item with the number."""
        value = read_number(vote)
        return [{"value": {self.key: int(value) if value.is_integer() else value}}]

    def vote_from_annotation(self, items: Sequence[ResultItem]) -> str | None:
        """Return the number that the annotator entered."""
        number = item_content(items, self.key)
        return None if isinstance(number, str) else self._canonical(number)

    @property
    def _is_whole(self) -> bool:
        """Whether all numbers are whole."""
        return self.step is not None and all(float(end or 0.0).is_integer() for end in (self.low, self.step))

    def _number(self, answer: object) -> object:
        """The number in an answer's wrappings."""
        match answer:
            case [inner]:
                return self._number(inner)
            case dict() if len(usual := usual_entries(answer)) == 1:
                return self._number(usual[0])
            case str():
                return self._number_in(unwrapped(answer)[-1].translate(_DRESS).strip(_SIGNS))
            case _:
                return answer

    def _number_in(self, words: str) -> object:
        """The number in words, if they can be read in one way only."""
        if self.low == 1.0 and (stars := _STARS.fullmatch(words)) is not None:
            full = float(len(stars[1]))
            return full if not stars[2] or full + len(stars[2]) == self.high else None
        if (said := _SCALE.fullmatch(words)) is not None:
            most, number = said["most"], said["number"].casefold()
            if most is not None and float(most) != self.high:
                return None
            return _WORDS.index(number) if number in _WORDS else number
        if (percent := _PERCENT.fullmatch(words)) is not None and self.high in {1.0, 100.0}:
            return percent[1] if self.high == 100.0 else float(percent[1]) / 100.0
        return self._grouped(words)

    def _grouped(self, words: str) -> str:
        """A number with marks between its digits in one spelling; the words themselves if they are none.

        ``1,000`` is a thousand where only whole numbers are possible; elsewhere it may be one.
        """
        groups = next((found for each in _GROUPS if (found := each.fullmatch(words)) is not None), None)
        if groups is None:
            return words.replace(",", ".") if _COMMA.fullmatch(words) else words
        once = words.count(groups["mark"]) == 1 and groups["mark"] == ","
        if once and not (groups["decimals"] or self._is_whole):
            return words
        return words.replace(groups["mark"], "").replace(",", ".")

    def _canonical(self, number: object) -> str | None:
        if isinstance(number, bool) or not isinstance(number, int | float | str):
            return None
        try:
            value = read_number(str(number))
        except InvalidParameterError:
            return None
        if not self._allows(value):
            return None
        # The editor accepts a number close to a step; a vote is the scale's own number.
        return min(self.scale, key=lambda own: abs(float(own) - value), default=write_number(value))

    def _allows(self, value: float) -> bool:
        low, high = (
            (-math.inf if self.low is None else self.low),
            (math.inf if self.high is None else self.high),
        )
        if not low <= value <= high or abs(value) > LARGEST_MAGNITUDE:
            return False
        if self.step is None:
            return True
        above = value - (self.low or 0.0)
        return abs(above - round(above / self.step) * self.step) <= _STEP_ERROR


@dataclass(frozen=True, slots=True)
class _NumberOfScale(NumberControl):
    """A number of a scale."""

    error: ErrorName = "absolute"

    @property
    def aggregation(self) -> Aggregation:
        """The vote on a scale."""
        return OrderedVote(self.scale, self.error)


def error_obstacle(element: Element, control: Control) -> str | None:
    """Return why the error that the attributes name cannot be minimised, or ``None``."""
    written = attribute(element, "camvo_error")
    if written is not None and written not in ERRORS:
        return f'camvo_error="{written}" is not one of {", ".join(ERRORS)}'
    if written is None and not is_true(element, "camvo_ordered"):
        return None
    if isinstance(control, OneOf) and not is_true(element, "camvo_ordered"):
        return 'camvo_error needs camvo_ordered="true"'
    if isinstance(control, NumberControl) and control.tolerance is not None:
        return "camvo_error and camvo_tolerance exclude one another: a scale has no tolerance"
    count = control.count if isinstance(control, NumberControl) else len(control.options(TaskContent({}, {})))
    if count is not None and _FEWEST_STEPS <= count <= MOST_STEPS:
        return None
    found = "any number" if count is None else str(count)
    return f"a scale has from {_FEWEST_STEPS} to {MOST_STEPS} labels or numbers, not {found}"


def _error_of(element: Element, default: ErrorName) -> ErrorName:
    written = attribute(element, "camvo_error")
    return next((error for error in ERRORS if error == written), default)


def with_error(element: Element, control: NumberControl) -> NumberControl:
    """Return the control of an element without an obstacle, with the error that it names.

    The usual error leaves the control as it is, so that the question keeps its epoch.
    """
    error = _error_of(element, "absolute")
    if error == "absolute":
        return control
    return _NumberOfScale(control.key, control.low, control.high, control.step, None, error)


def looks_ordered(control: Control) -> bool:
    """Whether the labels of a control that is no scale are the numbers of one, as 1 to 5 or 5 to 1."""
    if not isinstance(control, OneOf) or isinstance(control, _OneOfScale):
        return False
    return are_steps([label.text.strip() for label in control.labels])


def are_steps(texts: Sequence[str]) -> bool:
    """Whether texts are successive whole numbers, upwards or downwards, as many as a scale may have."""
    if not _FEWEST_STEPS <= len(texts) <= MOST_STEPS or not all(text.isdecimal() for text in texts):
        return False
    numbers = [int(text) for text in texts]
    ascending = [*range(min(numbers), max(numbers) + 1)]
    return numbers in (ascending, ascending[::-1])


def one_of_scale(element: Element, control: OneOf) -> OneOf:
    """Return the control of an element without an obstacle; with ``camvo_ordered``, that of a scale."""
    if not is_true(element, "camvo_ordered"):
        return control
    return _OneOfScale(control.labels, control.key, _error_of(element, "exact"))
