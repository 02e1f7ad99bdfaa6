"""How sure a model was of its answer: the probability of the tokens that spell the value of each question."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class AnswerToken:
    """One token of an answer.

    Attributes:
        text: its bytes; several tokens may share a character.
        log_probability: natural logarithm of its probability, given the tokens before it.
    """

    text: bytes
    log_probability: float


class Named(Protocol):
    """A question, of which only the name counts."""

    @property
    def name(self) -> str:
        """The control's name."""
        ...


def answer_confidences(
    content: str, tokens: Sequence[AnswerToken], questions: Sequence[Named]
) -> dict[str, float]:
    """Return the probability of each question's value in an answer: question name → confidence in [0, 1].

    It is the product over the tokens that spell the value. A question is left out if its value cannot be
    found. The result is empty if the tokens do not spell the answer, as when a provider returns only some.

    Args:
        content: the answer as the model gave it: a JSON object, or for a single question its bare value.
        tokens: all tokens of the answer.
        questions: the questions that were asked.
    """
    written = content.encode("utf-8", "replace")
    if not tokens or b"".join(token.text for token in tokens) != written:
        return {}
    spans = _property_spans(content)
    if "{" not in content and len(questions) == 1:
        spans = {questions[0].name: _stripped(content, 0, len(content))}
    confidences = {}
    for question in questions:
        if question.name in spans:
            start, end = (len(content[:place].encode("utf-8", "replace")) for place in spans[question.name])
            if start < end:
                confidences[question.name] = _probability(tokens, start, end)
    return confidences


def _probability(tokens: Sequence[AnswerToken], start: int, end: int) -> float:
    """The probability of the tokens with a byte in [start, end); 0 if a number is not finite."""
    ends = list(accumulate(len(token.text) for token in tokens))
    total = math.fsum(
        token.log_probability
        for token, last in zip(tokens, ends, strict=True)
        if last > start and last - len(token.text) < end
    )
    return math.exp(min(total, 0.0)) if math.isfinite(total) else 0.0


def _property_spans(content: str) -> dict[str, tuple[int, int]]:
    """Return where each property's value stands in the answer's JSON object, strings without their quotes.

    Empty if the answer is no object. Properties that occur twice are left out, as in
    :func:`backend.questions.prompts.answers.parse_answer`.
    """
    place = content.find("{")
    spans: dict[str, tuple[int, int]] = {}
    repeated = set()
    try:
        while place >= 0:
            key, place = _value(content, place + 1)
            colon = _skip(content, place)
            if not isinstance(key, str) or content[colon] != ":":
                break
            start = _skip(content, colon + 1)
            value, place = _value(content, start)
            repeated |= {key} & spans.keys()
            spans[key] = (start + 1, place - 1) if isinstance(value, str) else (start, place)
            place = _skip(content, place)
            if content[place] != ",":
                break
    except (ValueError, IndexError, RecursionError):
        return {}
    return {key: span for key, span in spans.items() if key not in repeated}


def _value(content: str, place: int) -> tuple[object, int]:
    """Return the JSON value that begins at a place, after blanks, and the place where it ends."""
    return _DECODER.raw_decode(content, _skip(content, place))


def _skip(content: str, place: int) -> int:
    found = _BLANK.match(content, place)
    return place if found is None else found.end()


def _stripped(content: str, start: int, end: int) -> tuple[int, int]:
    """The part of the text without the blanks and quotes around it."""
    inner = content[start:end]
    left = len(inner) - len(inner.lstrip(' \t\r\n"'))
    return start + left, max(start + left, start + len(inner.rstrip(' \t\r\n"')))
