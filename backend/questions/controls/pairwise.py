"""Pairwise: which of two objects is better, the left or the right one. The tag knows no tie.

Label Studio stores ``{"selected": "left"}``. The editor writes the control's own name as ``to_name``, which
label-studio-sdk's validator refuses; predictions name the first object, which both accept.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backend.questions.controls.control import Control, Item, Request, Shown, content
from backend.questions.objects.reading import field_of, fields
from backend.questions.xml.element import Element
from backend.questions.xml.tree import Tree, targets
from camvo.errors import InvalidParameterError
from camvo.votes.aggregation import Aggregation
from camvo.votes.labels import LABEL_VOTE

_SIDES = ("left", "right")


def obstacle(element: Element, tree: Tree) -> str | None:
    """Why this Pairwise cannot be voted on, or ``None``."""
    if len(targets(element)) != len(_SIDES):
        return 'its toName has to be two names: toName="left,right"'
    keys = _keys(element, tree)
    if len(set(keys)) < len(_SIDES) or not set(keys) <= {field.key for field in fields(element, tree)}:
        return "it needs two objects, each with a text of the task that its question reads"
    return None


def read(element: Element, tree: Tree) -> Control:
    """The fields of the two objects."""
    left, right = _keys(element, tree)
    return Pairwise(left, right)


@dataclass(frozen=True, slots=True)
class Pairwise:
    """The better of two fields of the task, given by their keys; the vote is ``"left"`` or ``"right"``."""

    left: str
    right: str

    @property
    def aggregation(self) -> Aggregation:
        """The weighted vote of Algorithm 1."""
        return LABEL_VOTE

    @property
    def request(self) -> Request:
        """One of the sides."""
        left, right = (json.dumps(key, ensure_ascii=False) for key in (self.left, self.right))
        rule = f'Choose the better of two fields: "left" for the field {left}, "right" for the field {right}.'
        return Request(rule, "<left or right>", {"type": "string", "enum": list(_SIDES)})

    def options(self, _: Shown) -> tuple[str, ...]:
        """Both sides."""
        return _SIDES

    def vote(self, given: object, _: Shown) -> str | None:
        """The side that is named, whatever its letter case."""
        side = given.strip().lower() if isinstance(given, str) else None
        return side if side in _SIDES else None

    def items(self, vote: str, _: Shown) -> list[dict[str, Any]]:
        """One item with the side."""
        if vote not in _SIDES:
            raise InvalidParameterError("a side is left or right")
        return [{"value": {"selected": vote}}]

    def answer(self, items: Sequence[Item]) -> str | None:
        """The side that was clicked."""
        side = content(items, "selected")
        return side if isinstance(side, str) and side in _SIDES else None


def _keys(element: Element, tree: Tree) -> list[str]:
    shown = [tree.objects[name] for name in targets(element) if name in tree.objects]
    return [field.key for one in shown if (field := field_of(one)) is not None]
