"""Pairwise: which of two objects is better, the left or the right one. The tag has no tie.

Label Studio stores ``{"selected": "left"}``. The editor writes the control's own name as ``to_name``, which
label-studio-sdk's validator refuses. Predictions name the first object, which both accept.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from backend.questions.controls import (
    AnswerFormat,
    Control,
    ControlTag,
    ResultItem,
    TaskContent,
    item_content,
)
from backend.questions.naming import label_named
from backend.questions.objects import field_of_object, question_fields
from backend.questions.xml import Element, Label, Tree, targets
from camvo.errors import InvalidParameterError
from camvo.votes.aggregation import Aggregation
from camvo.votes.labels import LABEL_VOTE

_SIDES = ("left", "right")
_LABELS = tuple(Label(side, side) for side in _SIDES)


def _obstacle(element: Element, tree: Tree) -> str | None:
    """Return why this Pairwise cannot be voted on, or ``None``."""
    if len(targets(element)) != len(_SIDES):
        return 'its toName must have two names: toName="left,right"'
    keys = _keys(element, tree)
    if len(set(keys)) < len(_SIDES) or not set(keys) <= {
        field.key for field in question_fields(element, tree)
    }:
        return "it needs two objects, each with a text of the task that its question reads"
    return None


def _read_control(element: Element, tree: Tree) -> Control:
    """Return the control over the fields of the two objects."""
    left, right = _keys(element, tree)
    return _Pairwise(left, right)


TAG: Final = ControlTag(_obstacle, _read_control)


@dataclass(frozen=True, slots=True)
class _Pairwise:
    """The better of two fields, given by their keys; the vote is ``"left"`` or ``"right"``."""

    left: str
    right: str

    @property
    def aggregation(self) -> Aggregation:
        """The weighted vote of Algorithm 1."""
        return LABEL_VOTE

    @property
    def answer_format(self) -> AnswerFormat:
        """One of the two sides."""
        left, right = (json.dumps(key, ensure_ascii=False) for key in (self.left, self.right))
        rule = f'Choose the better of two fields: "left" for the field {left}, "right" for the field {right}.'
        return AnswerFormat(rule, "<left or right>", {"type": "string", "enum": list(_SIDES)})

    def options(self, _: TaskContent) -> tuple[str, ...]:
        """Return both sides."""
        return _SIDES

    def vote_from_answer(self, answer: object, _: TaskContent) -> str | None:
        """Return the side that the answer names, by its own name or by that of its field."""
        sides = zip(_SIDES, (self.left, self.right), strict=True)
        return label_named(_LABELS, answer) or label_named([Label(side, key) for side, key in sides], answer)

    def result_items(self, vote: str, _: TaskContent) -> list[dict[str, Any]]:
        """Return one item with the side."""
        if vote not in _SIDES:
            raise InvalidParameterError("a vote on a Pairwise must be left or right")
        return [{"value": {"selected": vote}}]

    def vote_from_annotation(self, items: Sequence[ResultItem]) -> str | None:
        """Return the side that the annotator chose."""
        side = item_content(items, "selected")
        return side if isinstance(side, str) and side in _SIDES else None


def _keys(element: Element, tree: Tree) -> list[str]:
    objects = [tree.objects[name] for name in targets(element) if name in tree.objects]
    return [field.key for shown in objects if (field := field_of_object(shown)) is not None]
