"""Ranker: the items of a List, best first. The items come from the task's data.

Label Studio stores ``{"ranker": {"<control>": ["id", …]}}``, with every id as a string.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from backend.errors import TaskError
from backend.questions import objects
from backend.questions.controls import (
    AnswerFormat,
    Control,
    ControlTag,
    ResultItem,
    TaskContent,
    item_content,
)
from backend.questions.objects import Field, field_of_object, question_fields
from backend.questions.xml import Element, Tree, targets
from camvo.errors import InvalidParameterError
from camvo.votes.aggregation import Aggregation
from camvo.votes.rankings import RankingVote

_FEWEST = 2
_NUMBERED = re.compile(r"(\d{1,2})[.)]\s+(\S.*)")
_SHOWN = re.compile(r":(?!\s*[\d.]+\s*\Z).*", re.DOTALL)
"""What follows an id; not a number, which may be its rank."""


def _obstacle(element: Element, tree: Tree) -> str | None:
    """Return why this Ranker cannot be voted on, or ``None``."""
    if element.find(".//Bucket") is not None:
        return "a Ranker with a Bucket is not supported yet"
    lists = _lists(element, tree)
    if len(lists) != 1:
        return "a Ranker must be attached to exactly one List of the task"
    return None if lists[0] in question_fields(element, tree) else "camvo_fields leaves out its List"


def _read_control(element: Element, tree: Tree) -> Control:
    """Return the control over the items of its List."""
    (field,) = _lists(element, tree)
    return _Ranker(str(element.get("name")), field)


TAG: Final = ControlTag(_obstacle, _read_control)


@dataclass(frozen=True, slots=True)
class _Ranker:
    """An order of a List's items; the vote is a JSON array of their ids, best first."""

    name: str
    field: Field

    @property
    def aggregation(self) -> Aggregation:
        """The weighted Borda count."""
        return RankingVote("borda")

    @property
    def answer_format(self) -> AnswerFormat:
        """A list of ids. The schema does not list them, because they differ between tasks."""
        key = json.dumps(self.field.key, ensure_ascii=False)
        rule = (
            f"Rank all items of the field {key}, the best first: a JSON array of their ids, which stand "
            "before the colons, each exactly once."
        )
        return AnswerFormat(rule, ["<id>"], {"type": "array", "items": {"type": "string"}})

    def options(self, content: TaskContent) -> tuple[str, ...]:
        """Return the ids in the order of the data."""
        ids = objects.item_ids(self.field.content(content.data)) or []
        if len(ids) < _FEWEST or len(set(ids)) < len(ids):
            raise TaskError(
                "there is nothing to rank: the list needs at least two items, each with its own id",
                where=self.field.where,
                fix="import the task with such a list, or skip it",
            )
        return tuple(ids)

    def vote_from_answer(self, answer: object, content: TaskContent) -> str | None:
        """Return the ids if each item's id occurs exactly once; words have ``>`` or commas between them.

        Lines may be numbered, and an id may be followed by a colon and its words, as in the prompt.
        """
        options = self.options(content)
        match answer:
            case str():
                answer = _listed([part.strip(" \"'`") for part in re.split("[>→,\n]", answer)])
            case [list(inner)]:
                answer = inner
            case list():
                answer = [item.get("id") if isinstance(item, dict) else item for item in answer]
            case _:
                return None
        ids = [str(item) for item in answer if isinstance(item, str | int) and not isinstance(item, bool)]
        ids = [each if each in options else _SHOWN.sub("", each).strip(" \"'`") for each in ids]
        return _canonical(ids) if sorted(ids) == sorted(options) else None

    def result_items(self, vote: str, _: TaskContent) -> list[dict[str, Any]]:
        """Return one item with the whole order."""
        try:
            order = json.loads(vote)
        except ValueError as error:
            raise InvalidParameterError("a vote on a Ranker must be a JSON array of ids") from error
        return [{"value": {"ranker": {self.name: order}}}]

    def vote_from_annotation(self, items: Sequence[ResultItem]) -> str | None:
        """Return the order of the only column."""
        columns = item_content(items, "ranker")
        order = columns.get(self.name) if isinstance(columns, Mapping) and len(columns) == 1 else None
        if not isinstance(order, list) or len(order) < _FEWEST:
            return None
        return _canonical([str(item_id) for item_id in order])


def _listed(lines: list[str]) -> list[str]:
    """The lines without their numbers, if all are numbered in order."""
    found = [_NUMBERED.fullmatch(line) for line in lines]
    numbers = [int(each[1]) for each in found if each is not None]
    if numbers != [*range(1, len(lines) + 1)]:
        return lines
    return [each[2] for each in found if each is not None]


def _lists(element: Element, tree: Tree) -> list[Field]:
    fields = [field_of_object(tree.objects[name]) for name in targets(element) if name in tree.objects]
    return [field for field in fields if field is not None and field.tag == "List"]


def _canonical(ids: Sequence[str]) -> str:
    return json.dumps(ids, ensure_ascii=False, separators=(",", ":"))
