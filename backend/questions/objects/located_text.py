"""A field's plain text, with Label Studio's position of each character."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LocatedText:
    """A plain text with Label Studio's position of each character.

    Attributes:
        text: the plain text.
        positions: one position per character, never decreasing. A character that only the plain text has,
            such as the line feed between two blocks of HTML, has the position of the character before it.
        utf16: whether positions count UTF-16 code units, so that characters beyond U+FFFF take two.
        offsets: the offset of each character in the field's plain text; empty if this is the plain text.
        ends: the position after each character; empty if it follows from the character's own.
    """

    text: str
    positions: Sequence[int]
    utf16: bool = False
    offsets: Sequence[int] = ()
    ends: Sequence[int] = ()

    def positions_of(self, start: int, end: int) -> tuple[int, int]:
        """Return the positions of ``text[start:end]``, not empty: the first, and the one after the last."""
        if self.ends:
            return self.positions[start], self.ends[end - 1]
        wide = self.utf16 and self.text[end - 1] > "\uffff"
        return self.positions[start], self.positions[end - 1] + 1 + wide

    def words_between(self, start: int, end: int) -> str:
        """Return the words between two positions."""
        first, after = (bisect_left(self.positions, position) for position in (start, end))
        return self.text[first:after].strip()
