"""TextArea: a short answer in the model's own words.

Label Studio stores ``{"text": ["…"]}``, one entry per submission. The tag itself does not say what to write,
and many TextAreas are meant for remarks, so only those with ``camvo_instructions`` are asked.
"""

from __future__ import annotations

import json
import re
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
from backend.questions.naming import is_placeholder, unwrapped, usual_entries
from backend.questions.objects import storable_text
from backend.questions.xml import Element, Tree, attribute
from camvo.votes.aggregation import Aggregation
from camvo.votes.texts import OpenVote, normalise_text

_LONGEST = 200
"""The most characters in an answer. Longer answers rarely agree, so a vote on them would say little."""


_REFUSAL: Final = re.compile(
    r"\W*(?:i['’]?m (?:really |very |so )?(?:sorry|unable|not able)|i am (?:sorry|unable|not able)|sorry\b|"
    r"i (?:can ?not|can['’]?t|won['’]?t|do not|don['’]?t|must decline|apologi[sz]e)|as an ai\b|"
    r"unfortunately\b)",
    re.IGNORECASE,
)
"""How refusals begin."""

_FEW_WORDS: Final = 3
"""A shorter text that begins like a refusal may be a quotation."""

_FENCE: Final = re.compile(r"\b(?:BEGIN|END)\s+[0-9a-f]{4,12}\b")
"""A line that encloses texts in prompts."""


def _obstacle(element: Element, _: Tree) -> str | None:
    """Return why this TextArea cannot be voted on, or ``None``."""
    if attribute(element, "camvo_instructions") is None:
        return "a TextArea is asked only with camvo_instructions, which say what to write in it"
    return None


def _read_control(_: Element, __: Tree) -> Control:
    """Return the control; nothing depends on the element."""
    return _TextAreaControl()


TAG: Final = ControlTag(_obstacle, _read_control)


@dataclass(frozen=True, slots=True)
class _TextAreaControl:
    """A short text; the vote is the text."""

    @property
    def aggregation(self) -> Aggregation:
        """The vote over normalised texts, or their medoid if no two are equal."""
        return OpenVote("words")

    @property
    def answer_format(self) -> AnswerFormat:
        """A string."""
        rule = f"Answer in as few words as you can, at most {_LONGEST} characters."
        return AnswerFormat(rule, "<short answer>", {"type": "string"}, packs=False)

    def options(self, _: TaskContent) -> tuple[str, ...]:
        """Return nothing: texts are not listed."""
        return ()

    def vote_from_answer(self, answer: object, _: TaskContent) -> str | None:
        """Return the text without its wrappings, if it is short.

        Broken JSON, a refusal, the placeholder of the answer's form and lines of the prompt are no answers.
        """
        match answer:
            case [inner]:
                return self.vote_from_answer(inner, _)
            case dict() if len(usual := usual_entries(answer)) == 1:
                return self.vote_from_answer(usual[0], _)
            case {"text": inner, **others} if not others:
                return self.vote_from_answer(inner, _)
            case bool() | int() | float():
                answer = json.dumps(answer)
            case str() if unwrapped(answer)[-1].lstrip()[:1] not in {"{", "["}:
                pass
            case _:
                return None
        text = _canonical(unwrapped(answer)[-1])
        return text if text is not None and len(text) <= _LONGEST and _is_answer(text) else None

    def result_items(self, vote: str, _: TaskContent) -> list[dict[str, Any]]:
        """Return one item with one text."""
        return [{"value": {"text": [vote]}}]

    def vote_from_annotation(self, items: Sequence[ResultItem]) -> str | None:
        """Return the text if there is exactly one."""
        match item_content(items, "text"):
            case [str(text)] | str(text):
                return _canonical(text)
            case _:
                return None


def _is_answer(text: str) -> bool:
    refuses = _REFUSAL.match(text) is not None and len(text.split()) > _FEW_WORDS
    is_form = text.lower() == "short answer" or is_placeholder(text)
    return not (refuses or is_form or _FENCE.search(text))


def _canonical(text: str) -> str | None:
    text = storable_text(text).strip()
    return text if normalise_text(text) else None
