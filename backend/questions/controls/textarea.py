"""TextArea: a short answer in the model's own words.

Label Studio stores ``{"text": ["…"]}``, one entry a submission. Nothing in the tag says what is to be
written, and many are there for remarks, so only those with ``camvo_instructions`` are asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backend.questions.controls.control import Control, Item, Request, Shown, content
from backend.questions.controls.naming import unwrapped
from backend.questions.objects.field import storable
from backend.questions.xml.element import Element, attribute
from backend.questions.xml.tree import Tree
from camvo.votes.aggregation import Aggregation
from camvo.votes.texts import OpenVote, normalise_text

LONGEST = 200
"""Characters in an answer. What is longer is no short answer, and two that agree would be an accident."""


def obstacle(element: Element, _: Tree) -> str | None:
    """Why this TextArea cannot be voted on, or ``None``."""
    if attribute(element, "camvo_instructions") is None:
        return "a TextArea is asked only with camvo_instructions, which say what to write in it"
    return None


def read(_: Element, __: Tree) -> Control:
    """There is nothing to read."""
    return TextAreaControl()


@dataclass(frozen=True, slots=True)
class TextAreaControl:
    """A short text; the vote is the text."""

    @property
    def aggregation(self) -> Aggregation:
        """The vote over normalised texts, and their medoid where no two are alike."""
        return OpenVote("words")

    @property
    def request(self) -> Request:
        """A string."""
        rule = f"Answer in as few words as you can, at most {LONGEST} characters."
        return Request(rule, "<short answer>", {"type": "string"})

    def options(self, _: Shown) -> tuple[str, ...]:
        """None: texts are not listed."""
        return ()

    def vote(self, given: object, _: Shown) -> str | None:
        """The text, without what is wrapped around it, if it is short and no JSON that went wrong."""
        if not isinstance(given, str) or given.lstrip()[:1] in {"{", "["}:
            return None
        text = _canonical(unwrapped(given)[-1])
        return text if text is not None and len(text) <= LONGEST else None

    def items(self, vote: str, _: Shown) -> list[dict[str, Any]]:
        """One item with one text."""
        return [{"value": {"text": [vote]}}]

    def answer(self, items: Sequence[Item]) -> str | None:
        """The text, if there is exactly one."""
        match content(items, "text"):
            case [str(text)] | str(text):
                return _canonical(text)
            case _:
                return None


def _canonical(text: str) -> str | None:
    text = storable(text).strip()
    return text if normalise_text(text) else None
