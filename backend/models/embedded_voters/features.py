"""The features of the zero-shot voters: passages of a text, and phrases that describe a label."""

from __future__ import annotations

import re
from collections import Counter

_LONGEST_TEXT = 10_000
"""Characters of a text that are used; the embedding model reads about a tenth of them."""

_PASSAGES = 32
"""The most sentences or words of a text that vote: one batch of the embedder."""

_STEM = 5
"""Letters in a stem: crude, but it works for every language with an alphabet."""

_END = re.compile(r"(?<=[.!?;])\s+|\n+")
_WORD = re.compile(r"\w{4,}")


def whole_text(text: str) -> tuple[str, ...]:
    """Return the text as one passage."""
    return (text[:_LONGEST_TEXT],)


def sentences(text: str) -> tuple[str, ...]:
    """Return the text's sentences, or the whole text if there are none."""
    parts = [stripped for part in _END.split(text[:_LONGEST_TEXT]) if (stripped := part.strip())]
    return tuple(parts[:_PASSAGES]) or whole_text(text)


def words(text: str) -> tuple[str, ...]:
    """Return the text's distinct words of four or more letters, or the whole text if there are none."""
    distinct = dict.fromkeys(_WORD.findall(text[:_LONGEST_TEXT].casefold()))
    return tuple(distinct)[:_PASSAGES] or whole_text(text)


def stems(text: str) -> Counter[str]:
    """Count the first letters of each word of four or more letters."""
    return Counter(word[:_STEM] for word in _WORD.findall(text[:_LONGEST_TEXT].casefold()))


def label_name(label: str, _hint: str | None) -> tuple[str, ...]:
    """Return the label's name."""
    return (label,)


def sentence_about(label: str, _hint: str | None) -> tuple[str, ...]:
    """Return a sentence that contains the label's name."""
    return (f"This text is about {label}.",)


def hint_sentences(label: str, hint: str | None) -> tuple[str, ...]:
    """Return the sentences of the label's hint, or its name if it has no hint."""
    return sentences(hint) if hint and hint.strip() else (label,)


def hint_sentences_and_name(label: str, hint: str | None) -> tuple[str, ...]:
    """Return the sentences of the label's hint, and its name."""
    return (*hint_sentences(label, hint), label)


def all_phrases(label: str, hint: str | None) -> tuple[str, ...]:
    """Return all phrases above, and ``name: hint`` as in a dictionary."""
    phrases = (*label_name(label, hint), *sentence_about(label, hint), *hint_sentences(label, hint))
    return (*phrases, f"{label}: {hint}") if hint and hint.strip() else phrases
