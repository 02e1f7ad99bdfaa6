"""A redacted text with the way back to the original."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from backend.questions.objects.located_text import LocatedText
from backend.settings.redaction import Edit


@dataclass(frozen=True, slots=True)
class RedactedText:
    """A text in which parts are replaced.

    Attributes:
        original: the text before.
        edits: the replacements, in the order of the text; they do not overlap, and none is of an empty part.
    """

    original: str
    edits: tuple[Edit, ...]

    @property
    def text(self) -> str:
        """The text after."""
        parts, end = [], 0
        for start, stop, replacement in self.edits:
            parts += [self.original[end:start], replacement]
            end = stop
        return "".join([*parts, self.original[end:]])

    def located(self, located: LocatedText) -> LocatedText:
        """Return a text of the original with its parts replaced, too.

        Each character of a replacement has the position of everything that was replaced, so a quotation that
        touches a replacement covers all of the original part.

        Args:
            located: the original, or characters of it in its order: ``located.offsets`` says which.
        """
        offsets = (located.offsets or range(len(located.text)))[: len(located.text)]
        characters: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        index = 0
        for start, stop, replacement in (*self.edits, (len(self.original), len(self.original), "")):
            while index < len(offsets) and offsets[index] < start:
                first, after = located.positions_of(index, index + 1)
                characters.append(located.text[index])
                starts.append(first)
                ends.append(after)
                index += 1
            first_replaced = index
            while index < len(offsets) and offsets[index] < stop:
                index += 1
            if index > first_replaced:
                first, after = located.positions_of(first_replaced, index)
                characters.extend(replacement)
                starts.extend([first] * len(replacement))
                ends.extend([after] * len(replacement))
        return LocatedText("".join(characters), starts, ends=ends)


def read_edits(edits: object, text: str) -> tuple[Edit, ...]:
    """Check what a redact function returned, and sort it.

    Raises:
        ValueError: it is not a sequence of (start, end, replacement) that lie in the text and do not overlap.
    """
    if not isinstance(edits, Sequence) or isinstance(edits, str):
        raise ValueError("it returned no list")
    checked: list[Edit] = []
    for edit in edits:
        match edit:
            case (int(start), int(stop), str(replacement)) if 0 <= start < stop <= len(text):
                checked.append((start, stop, replacement))
            case _:
                raise ValueError("it returned an entry that is not (start, end, replacement) within the text")
    checked.sort()
    if any(second[0] < first[1] for first, second in pairwise(checked)):
        raise ValueError("it returned entries that overlap")
    return tuple(checked)
