"""How sure a model was: the probability of each value in its answer.

Under a grammar, which a JSON schema becomes, log-probabilities are often those from before it: the model
would rather have said something else, and was not allowed to. What counts then is how probable the label was
among the labels.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

from backend.questions.naming import answer_key

_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class AnswerToken:
    """One token of an answer.

    Attributes:
        text: its bytes; several tokens may share a character.
        log_probability: natural logarithm of its probability, given the tokens before it.
        others: the most probable tokens at its place, with their log-probabilities; it may be among them.
    """

    text: bytes
    log_probability: float
    others: tuple[tuple[bytes, float], ...] = ()


class _Named(Protocol):
    """A question, of which only the name counts."""

    @property
    def name(self) -> str:
        """The control's name."""
        ...


def answer_confidences(
    content: str,
    tokens: Sequence[AnswerToken],
    questions: Sequence[_Named],
    schema: Mapping[str, Any] | None = None,
) -> dict[str, float]:
    """Return the probability of each question's value in an answer: question name → confidence in [0, 1].

    Without a schema it is the product over the tokens that spell the value. With one, it is the share of the
    label among the labels that the schema lists, at the first tokens that tell them apart; a question is left
    out if its schema lists none, or if the provider did not report the other tokens.

    A question is also left out if its value cannot be found. The result is empty if the tokens do not spell
    the answer, as when a provider returns only some. They may spell more: servers cut reasoning, code fences
    and blanks off the answer, and not off its tokens.

    Args:
        content: the answer as the model gave it: a JSON object, or for a single question its bare value.
        tokens: all tokens of the answer.
        questions: the questions that were asked.
        schema: the JSON schema that the answer was held to; ``None`` if there was none.
    """
    spelt, written = b"".join(token.text for token in tokens), content.encode("utf-8", "replace")
    first = spelt.rfind(written) if written else -1
    if first < 0 or spelt[first + len(written) :].strip(b"` \t\r\n"):
        return {}
    spans = _property_spans(content)
    if "{" not in content and len(questions) == 1:
        spans = {questions[0].name: _stripped(content, 0, len(content))}
    confidences = {}
    for question in questions:
        span = spans.get(question.name, spans.get(answer_key(question.name)))
        if span is None or span[0] == span[1]:
            continue
        start, end = (first + len(content[:place].encode("utf-8", "replace")) for place in span)
        if schema is None:
            confidences[question.name] = _probability(tokens, start, end)
        else:
            spellings = _spellings(schema, question.name)
            if (share := _share(tokens, start, end, spellings)) is not None:
                confidences[question.name] = share
    return confidences


def _spellings(schema: Mapping[str, Any], name: str) -> list[bytes]:
    """The values that a schema lists for a question as JSON spells them, without a string's first quote."""
    part = schema.get("properties", {}).get(answer_key(name), {})
    return [json.dumps(each, ensure_ascii=False).lstrip('"').encode() for each in part.get("enum", ())]


def _share(tokens: Sequence[AnswerToken], start: int, end: int, spellings: Sequence[bytes]) -> float | None:
    """The share of the value in [start, end) among the values with these spellings; ``None`` if unknown."""
    spelt = b"".join(token.text for token in tokens)
    live = {spelling for spelling in spellings if spelling.rstrip(b'"')}
    chosen = [spelling for spelling in live if spelling.removesuffix(b'"') == spelt[start:end]]
    if len(chosen) != 1 or len(live) < 2:
        return None
    share, place = 1.0, 0
    for token in tokens:
        begins, place = place, place + len(token.text)
        if place <= start or len(live) == 1:
            continue
        if begins > end:
            break
        before = spelt[begins:start] if begins < start else b""
        spoken = spelt[start:begins] if begins > start else b""
        fits = _fitting(spoken + token.text[len(before) :], live)
        if chosen[0] not in fits or fits == live:
            continue
        if (step := _step(token, before, spoken, live, fits)) is None:
            return None
        share, live = share * step, fits
    return share if len(live) == 1 else None


def _step(
    token: AnswerToken, before: bytes, spoken: bytes, live: set[bytes], fits: set[bytes]
) -> float | None:
    """The share of a token among those that continue a value; ``None`` if too little is known of the others.

    Values without a reported token are rarer than the rarest of these. Together they count as that, or a
    model that is sure would be no surer of one answer than of another.
    """
    chances = {text: number for text, number in token.others if math.isfinite(number)}
    if not chances or token.text not in chances or not math.isfinite(token.log_probability):
        return None  # it is rarer than all that were reported, and so may be the other labels' tokens
    best = max(chances.values())
    ours = total = 0.0
    unseen = set(live)
    for text, number in chances.items():
        if not text.startswith(before) or len(text) == len(before):
            continue
        each = _fitting(spoken + text[len(before) :], live)
        if each and each != live:
            chance = math.exp(number - best)
            total += chance
            ours += chance * len(each & fits) / len(each)
            unseen -= each
    rest = math.exp(min(chances.values()) - best) if unseen else 0.0
    return ours / (total + rest) if total > 0.0 else None


def _fitting(words: bytes, values: set[bytes]) -> set[bytes]:
    """The values that begin with these bytes, or that end within them."""
    return {value for value in values if value.startswith(words) or _ends_in(words, value)}


def _ends_in(words: bytes, value: bytes) -> bool:
    """Whether the bytes are a whole value and what follows it; a value without quotes ends at a sign."""
    after = words[len(value) : len(value) + 1]
    return words.startswith(value) and (value.endswith(b'"') or not (after.isalnum() or after == b"."))


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
    """Return the position of each property's value in the answer's JSON object, strings without quotes.

    Empty if the answer is no object, or has several: the vote may come from any of them. Properties that
    occur twice are left out, as in :func:`backend.questions.prompts.answers.parse_answer`.
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
    if "{" in content[place:]:
        return {}
    return {key: span for key, span in spans.items() if key not in repeated}


def _value(content: str, place: int) -> tuple[object, int]:
    """Return the JSON value that starts at a position, after blanks, and the position where it ends."""
    return _DECODER.raw_decode(content, _skip(content, place))


def _skip(content: str, place: int) -> int:
    found = _BLANK.match(content, place)
    return place if found is None else found.end()


def _stripped(content: str, start: int, end: int) -> tuple[int, int]:
    """The part of the text without the blanks and quotes around it."""
    inner = content[start:end]
    left = len(inner) - len(inner.lstrip(' \t\r\n"'))
    return start + left, max(start + left, start + len(inner.rstrip(' \t\r\n"')))
