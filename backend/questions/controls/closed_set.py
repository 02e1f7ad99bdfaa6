"""Answers from a closed set of labels: exactly one of them, or any number."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backend.questions.controls.control import (
    AnswerFormat,
    Control,
    ResultItem,
    TaskContent,
    item_content,
)
from backend.questions.controls.label_matching import label_named
from backend.questions.label import Label
from camvo.errors import InvalidParameterError
from camvo.votes.aggregation import Aggregation
from camvo.votes.labels import LABEL_VOTE
from camvo.votes.sets import SubsetVote, read_subset

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
    for kind, counts in (("are stored as", stored), ("read", visible)):
        text, count = counts.most_common(1)[0]
        if count > 1:
            return f'{count} of its labels {kind} "{text}"'
    return None


def lists_labels(control: Control) -> bool:
    """Whether a control's answer is one label of a list, or several."""
    return control.answer_format.form in (ONE_LABEL, [ONE_LABEL])


@dataclass(frozen=True, slots=True)
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

    @property
    def answer_format(self) -> AnswerFormat:
        """One of the visible texts."""
        schema = {"type": "string", "enum": [label.text for label in self.labels]}
        return AnswerFormat(_ONE_RULE, ONE_LABEL, schema, _texts_and_hints(self.labels))

    def options(self, _: TaskContent) -> tuple[str, ...]:
        """Return the labels' values."""
        return tuple(label.value for label in self.labels)

    def vote_from_answer(self, answer: object, _: TaskContent) -> str | None:
        """Return the value of the label that the answer names."""
        return label_named(self.labels, answer) if isinstance(answer, str) else None

    def result_items(self, vote: str, _: TaskContent) -> list[dict[str, Any]]:
        """Return one item with one label."""
        return [{"value": {self.key: [_label_of(self.labels, vote).stored]}}]

    def vote_from_annotation(self, items: Sequence[ResultItem]) -> str | None:
        """Return the label's value if the annotator chose exactly one."""
        chosen = _chosen_values(self.labels, self.key, items)
        return chosen[0] if chosen is not None and len(chosen) == 1 else None


@dataclass(frozen=True, slots=True)
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

    @property
    def answer_format(self) -> AnswerFormat:
        """A list of visible texts."""
        schema = {"type": "array", "items": {"type": "string", "enum": [label.text for label in self.labels]}}
        return AnswerFormat(_ANY_RULE, [ONE_LABEL], schema, _texts_and_hints(self.labels))

    def options(self, _: TaskContent) -> tuple[str, ...]:
        """Return the labels' values."""
        return tuple(label.value for label in self.labels)

    def vote_from_answer(self, answer: object, _: TaskContent) -> str | None:
        """Return the labels that the answer names; ``None`` if one of its entries names no label."""
        if not isinstance(answer, list):
            return None
        named = [label_named(self.labels, words) if isinstance(words, str) else None for words in answer]
        return None if None in named else self._canonical(named)

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

    def _canonical(self, chosen: Sequence[str | None]) -> str:
        return json.dumps(
            [label.value for label in self.labels if label.value in chosen],
            ensure_ascii=False,
            separators=(",", ":"),
        )


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
