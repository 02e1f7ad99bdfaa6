"""The answers of models: the JSON schema that they are asked to follow, and the votes in them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from backend.errors import BadAnswerError
from backend.questions.controls.label_matching import unwrapped
from backend.questions.question import TaskQuestion


def answer_schema(questions: Sequence[TaskQuestion]) -> dict[str, object]:
    """Return the JSON schema of the answer: an object with one property per question."""
    return {
        "type": "object",
        "properties": {
            question.name: question.question.control.answer_format.schema for question in questions
        },
        "required": [question.name for question in questions],
        "additionalProperties": False,
    }


def parse_answer(content: str, questions: Sequence[TaskQuestion]) -> dict[str, str]:
    """Return the votes in a model's answer: question name → vote.

    An answer is a JSON object, or for a single question its bare value. A question is left out if its key is
    missing, occurs twice, or holds no valid answer. Other keys are ignored.

    Raises:
        BadAnswerError: no question has a valid answer.
    """
    forms = unwrapped(content)
    answers = next((parsed for form in forms if (parsed := _parse_object(form)) is not None), None)
    bare = [content, *map(_parse_value, forms)] if answers is None and len(questions) == 1 else []
    votes = {}
    for question in questions:
        candidates = [answers[question.name]] if answers and question.name in answers else bare
        valid = (
            vote for candidate in candidates if (vote := question.vote_from_answer(candidate)) is not None
        )
        vote = next(valid, None)
        if vote is not None:
            votes[question.name] = vote
    if not votes:
        raise BadAnswerError(
            "the answer answers none of the questions" if content.strip() else "the answer is empty"
        )
    return votes


def _parse_object(text: str) -> dict[str, object] | None:
    """Return a JSON object without the keys that occur twice; ``None`` for any other text."""
    try:
        parsed = json.loads(text, object_pairs_hook=_without_repeated_keys)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _parse_value(text: str) -> object:
    """Return the text's JSON value; ``None`` if the text is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _without_repeated_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    counts = Counter(key for key, _ in pairs)
    return {key: content for key, content in pairs if counts[key] == 1}
