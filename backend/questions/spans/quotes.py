"""Locate a quotation in a text: exactly, else ignoring letter case and white space. It is never guessed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class QuotedText:
    """A text in which quotations are located."""

    text: str

    def places(self, quote: str, before: str = "") -> list[tuple[int, int]]:
        """Return the places of a quotation as (start, end), in the order of the text.

        Exact occurrences are preferred to those that differ in letter case or white space. Among them, those
        that begin and end at a word boundary are preferred: a quoted "he" is not the one in "the".

        Args:
            quote: the quoted words; surrounding blanks are ignored.
            before: the words right before the quotation, used to choose between several occurrences.
        """
        words = quote.strip()
        if not words:
            return []
        places = [(start, start + len(words)) for start in _occurrences(self.text, words)]
        places = places or list(self._folded_places(words))
        places = [place for place in places if self._at_word_boundaries(*place)] or places
        context = _folded(before).strip()
        if context and len(places) > 1:
            return [place for place in places if _folded(self.text[: place[0]]).rstrip().endswith(context)]
        return places

    def _folded_places(self, words: str) -> Iterator[tuple[int, int]]:
        sought = _folded(words)
        text, origins = _folded_text(self.text)
        for start in _occurrences(text, sought):
            yield origins[start], origins[start + len(sought) - 1] + 1

    def _at_word_boundaries(self, start: int, end: int) -> bool:
        edges = ((start - 1, start), (end - 1, end))
        return not any(
            left >= 0 and right < len(self.text) and self.text[left].isalnum() and self.text[right].isalnum()
            for left, right in edges
        )


@lru_cache(maxsize=32)
def _folded_text(text: str) -> tuple[str, tuple[int, ...]]:
    """Return the text casefolded with single spaces, and the original index of each of its characters."""
    characters: list[str] = []
    origins: list[int] = []
    for index, character in enumerate(text):
        if character.isspace():
            folded = " " if characters and characters[-1] != " " else ""
        else:
            folded = character.casefold()
        characters.extend(folded)
        origins.extend([index] * len(folded))
    return "".join(characters), tuple(origins)


def _occurrences(text: str, sought: str) -> Iterator[int]:
    start = text.find(sought)
    while start >= 0:
        yield start
        start = text.find(sought, start + 1)


def _folded(text: str) -> str:
    return _BLANKS.sub(" ", text).casefold()
