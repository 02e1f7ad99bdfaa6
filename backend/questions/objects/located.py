"""A field's plain text, with the places where Label Studio keeps its characters."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Located:
    """A plain text, and for each of its characters the position that Label Studio knows it by.

    Positions never fall. A character that is the reader's alone, such as the line feed between two blocks of
    HTML, has the position of the one before it. ``utf16`` says that characters beyond U+FFFF take two.
    """

    text: str
    positions: Sequence[int]
    utf16: bool = False

    def stored(self, start: int, end: int) -> tuple[int, int]:
        """The positions of the stretch ``text[start:end]``, which is not empty: first, and after the last."""
        wide = self.utf16 and self.text[end - 1] > "\uffff"
        return self.positions[start], self.positions[end - 1] + 1 + wide

    def between(self, start: int, end: int) -> str:
        """The words between two positions."""
        first, after = (bisect_left(self.positions, position) for position in (start, end))
        return self.text[first:after].strip()
