"""What the zero-shot voters look at: passages of a text, and phrases that stand for a label."""

from __future__ import annotations

import re
from collections import Counter

_READ = 10_000
"""Characters of a text that are looked at; the embedding model reads about a tenth of that."""

_PASSAGES = 32
"""Sentences or words of a text that have a vote: one batch for the embedder."""

_STEM = 5
"""Letters by which a word is known: a crude stem, but one for every language with an alphabet."""

_END = re.compile(r"(?<=[.!?;])\s+|\n+")
_WORD = re.compile(r"\w{4,}")


def whole(text: str) -> tuple[str, ...]:
    """The text as it is."""
    return (text[:_READ],)


def sentences(text: str) -> tuple[str, ...]:
    """The text's sentences; the whole text where there are none."""
    found = [stripped for part in _END.split(text[:_READ]) if (stripped := part.strip())]
    return tuple(found[:_PASSAGES]) or whole(text)


def words(text: str) -> tuple[str, ...]:
    """The text's different words of four letters and more; the whole text where there are none."""
    found = dict.fromkeys(_WORD.findall(text[:_READ].casefold()))
    return tuple(found)[:_PASSAGES] or whole(text)


def stems(text: str) -> Counter[str]:
    """The first letters of each word of four letters and more."""
    return Counter(word[:_STEM] for word in _WORD.findall(text[:_READ].casefold()))


def name(label: str, _hint: str | None) -> tuple[str, ...]:
    """The label's name."""
    return (label,)


def sentence_about(label: str, _hint: str | None) -> tuple[str, ...]:
    """A sentence with the label's name in it."""
    return (f"This text is about {label}.",)


def hint_sentences(label: str, hint: str | None) -> tuple[str, ...]:
    """The sentences of the label's hint; its name where there is none."""
    return sentences(hint) if hint and hint.strip() else (label,)


def hint_sentences_and_name(label: str, hint: str | None) -> tuple[str, ...]:
    """The sentences of the label's hint, and its name."""
    return (*hint_sentences(label, hint), label)


def everything(label: str, hint: str | None) -> tuple[str, ...]:
    """All phrases that stand for the label, and its name and hint in one, as a dictionary would put it."""
    phrases = (*name(label, hint), *sentence_about(label, hint), *hint_sentences(label, hint))
    return (*phrases, f"{label}: {hint}") if hint and hint.strip() else phrases
