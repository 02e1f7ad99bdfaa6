"""Answers from a closed set of labels: exactly one of them, or any number."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backend.questions.controls.control import Item, Request, Shown, content
from backend.questions.controls.naming import label_named
from backend.questions.label import Label
from camvo.errors import InvalidParameterError
from camvo.votes.aggregation import Aggregation
from camvo.votes.labels import LABEL_VOTE
from camvo.votes.sets import SubsetVote, read_subset

_FEWEST = 2
ONE_FORM = "<label>"
_ONE_RULE = "Choose exactly one of these labels; if none fits well, the closest:"
_ANY_RULE = "Choose every one of these labels that fits, as a JSON array; an empty one if none does:"


def obstacle(labels: Sequence[Label], fewest: int = _FEWEST) -> str | None:
    """Why these labels cannot be voted on, or ``None``; there have to be so many at the ``fewest``."""
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


@dataclass(frozen=True, slots=True)
class OneOf:
    """Exactly one label; the vote is its ``value``.

    Attributes:
        labels: at least two, with distinct values and texts, in the order of the config.
        key: where Label Studio's value keeps the list with the label: ``{"choices": ["A"]}``.
    """

    labels: tuple[Label, ...]
    key: str

    @property
    def aggregation(self) -> Aggregation:
        """The weighted vote of Algorithm 1."""
        return LABEL_VOTE

    @property
    def request(self) -> Request:
        """One of the visible texts."""
        schema = {"type": "string", "enum": [label.text for label in self.labels]}
        return Request(_ONE_RULE, ONE_FORM, schema, _listed(self.labels))

    def options(self, _: Shown) -> tuple[str, ...]:
        """The labels' values."""
        return tuple(label.value for label in self.labels)

    def vote(self, given: object, _: Shown) -> str | None:
        """The one label that is named."""
        return label_named(self.labels, given) if isinstance(given, str) else None

    def items(self, vote: str, _: Shown) -> list[dict[str, Any]]:
        """One item with one label."""
        return [{"value": {self.key: [_label(self.labels, vote).stored]}}]

    def answer(self, items: Sequence[Item]) -> str | None:
        """The label, if there is exactly one."""
        chosen = _values(self.labels, self.key, items)
        return chosen[0] if chosen is not None and len(chosen) == 1 else None


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Any number of labels; the vote is a JSON array of their values, in the order of the config.

    Attributes:
        labels: as for :class:`OneOf`.
        key: as for :class:`OneOf`.
        conditional: whether annotators see the control only sometimes. If they always do, one that chose
            nothing has said that no label fits.
    """

    labels: tuple[Label, ...]
    key: str
    conditional: bool = False

    @property
    def aggregation(self) -> Aggregation:
        """A yes/no vote for each label."""
        return SubsetVote(len(self.labels))

    @property
    def request(self) -> Request:
        """A list of visible texts."""
        schema = {"type": "array", "items": {"type": "string", "enum": [label.text for label in self.labels]}}
        return Request(_ANY_RULE, [ONE_FORM], schema, _listed(self.labels))

    def options(self, _: Shown) -> tuple[str, ...]:
        """The labels' values."""
        return tuple(label.value for label in self.labels)

    def vote(self, given: object, _: Shown) -> str | None:
        """The labels that are named; nothing if one of the words names none."""
        if not isinstance(given, list):
            return None
        named = [label_named(self.labels, words) if isinstance(words, str) else None for words in given]
        return None if None in named else self._canonical(named)

    def items(self, vote: str, _: Shown) -> list[dict[str, Any]]:
        """One item with all labels; none if no label fits."""
        chosen = [_label(self.labels, value).stored for value in read_subset(vote)]
        return [{"value": {self.key: chosen}}] if chosen else []

    def answer(self, items: Sequence[Item]) -> str | None:
        """The labels of the one item."""
        if not items:
            return None if self.conditional else self._canonical(())
        chosen = _values(self.labels, self.key, items)
        return None if chosen is None else self._canonical(chosen)

    def _canonical(self, chosen: Sequence[str | None]) -> str:
        return json.dumps(
            [label.value for label in self.labels if label.value in chosen],
            ensure_ascii=False,
            separators=(",", ":"),
        )


def _label(labels: Sequence[Label], value: str) -> Label:
    for label in labels:
        if label.value == value:
            return label
    raise InvalidParameterError("the label is not one of the question's")


def _values(labels: Sequence[Label], key: str, items: Sequence[Item]) -> list[str] | None:
    """The label values that a human's one result item holds; ``None`` for anything that is no list of them.

    Label Studio names an inner node of nested labels beside its leaves; alone it is no label.
    """
    entries = content(items, key)
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


def _listed(labels: Sequence[Label]) -> tuple[tuple[str, str | None], ...]:
    return tuple((label.text, label.hint) for label in labels)
