"""Where in a text a quotation stands: exactly, or else but for letter case and white space; never a guess."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Quotable:
    """A text that quotations are looked up in."""

    text: str

    def places(self, quote: str, before: str = "") -> list[tuple[int, int]]:
        """Where a quotation stands, as (start, end), in the order of the text.

        Exact occurrences count alone if there are any. So do, among those found, the ones that begin and end
        where words do: a quoted "he" is not in "the". Several are told apart by the words in front of them.

        Args:
            quote: the words; blanks around them are ignored.
            before: words that stand right before it; they are not needed where it stands only once.
        """
        words = quote.strip()
        if not words:
            return []
        found = [(start, start + len(words)) for start in _occurrences(self.text, words)]
        found = found or list(self._folded_places(words))
        found = [place for place in found if self._is_whole(*place)] or found
        context = _folded(before).strip()
        if context and len(found) > 1:
            return [place for place in found if _folded(self.text[: place[0]]).rstrip().endswith(context)]
        return found

    def _folded_places(self, words: str) -> Iterator[tuple[int, int]]:
        sought = _folded(words)
        text, origins = _folded_text(self.text)
        for start in _occurrences(text, sought):
            yield origins[start], origins[start + len(sought) - 1] + 1

    def _is_whole(self, start: int, end: int) -> bool:
        edges = ((start - 1, start), (end - 1, end))
        return not any(
            left >= 0 and right < len(self.text) and self.text[left].isalnum() and self.text[right].isalnum()
            for left, right in edges
        )


@lru_cache(maxsize=32)
def _folded_text(text: str) -> tuple[str, tuple[int, ...]]:
    """A text in one letter case with single spaces, and the index that each of its characters comes from."""
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
