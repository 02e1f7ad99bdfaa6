"""Ranker: the items of a List in order, the best first. The items come from the task's data.

Label Studio stores ``{"ranker": {"<control>": ["id", …]}}`` with every id as a string.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backend.errors import TaskError
from backend.questions.controls.control import Control, Item, Request, Shown, content
from backend.questions.objects import listing
from backend.questions.objects.field import Field
from backend.questions.objects.reading import field_of, fields
from backend.questions.xml.element import Element
from backend.questions.xml.tree import Tree, targets
from camvo.errors import InvalidParameterError
from camvo.votes.aggregation import Aggregation
from camvo.votes.rankings import RankingVote

_FEWEST = 2


def obstacle(element: Element, tree: Tree) -> str | None:
    """Why this Ranker cannot be voted on, or ``None``."""
    if element.find(".//Bucket") is not None:
        return "a Ranker with a Bucket is not supported yet"
    lists = _lists(element, tree)
    if len(lists) != 1:
        return "a Ranker ranks the items of one List of the task"
    return None if lists[0] in fields(element, tree) else "its question does not read its List"


def read(element: Element, tree: Tree) -> Control:
    """The List's field."""
    (field,) = _lists(element, tree)
    return Ranker(str(element.get("name")), field)


@dataclass(frozen=True, slots=True)
class Ranker:
    """An order of a List's items; the vote is a JSON array of their ids, the best first.

    Attributes:
        name: the control's name, under which Label Studio stores the order.
        field: the List's.
    """

    name: str
    field: Field

    @property
    def aggregation(self) -> Aggregation:
        """Borda's count, weighted."""
        return RankingVote("borda")

    @property
    def request(self) -> Request:
        """A list of ids. Which there are differs from task to task, so no schema lists them."""
        key = json.dumps(self.field.key, ensure_ascii=False)
        rule = (
            f"Rank all items of the field {key}, the best first: a JSON array of their ids, which stand "
            "before the colons, each exactly once."
        )
        return Request(rule, ["<id>"], {"type": "array", "items": {"type": "string"}})

    def options(self, shown: Shown) -> tuple[str, ...]:
        """The ids in the order of the data."""
        ids = listing.ids(self.field.content(shown.data)) or []
        if len(ids) < _FEWEST or len(set(ids)) < len(ids):
            raise TaskError(
                "there is nothing to rank: a list needs at least two items, each with an id of its own",
                where=self.field.where,
                fix="import the task with them, or skip it",
            )
        return tuple(ids)

    def vote(self, given: object, shown: Shown) -> str | None:
        """The ids, if all of them are there."""
        if not isinstance(given, list) or not all(isinstance(one, str | int) for one in given):
            return None
        ids = [str(one) for one in given]
        return _canonical(ids) if sorted(ids) == sorted(self.options(shown)) else None

    def items(self, vote: str, _: Shown) -> list[dict[str, Any]]:
        """One item with the whole order."""
        try:
            order = json.loads(vote)
        except ValueError as error:
            raise InvalidParameterError("an order is a JSON array of ids") from error
        return [{"value": {"ranker": {self.name: order}}}]

    def answer(self, items: Sequence[Item]) -> str | None:
        """The order of the one column that there is."""
        columns = content(items, "ranker")
        order = columns.get(self.name) if isinstance(columns, Mapping) and len(columns) == 1 else None
        if not isinstance(order, list) or len(order) < _FEWEST:
            return None
        return _canonical([str(one) for one in order])


def _lists(element: Element, tree: Tree) -> list[Field]:
    shown = [field_of(tree.objects[name]) for name in targets(element) if name in tree.objects]
    return [field for field in shown if field is not None and field.tag == "List"]


def _canonical(ids: Sequence[str]) -> str:
    return json.dumps(ids, ensure_ascii=False, separators=(",", ":"))
