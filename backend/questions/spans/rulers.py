"""Where Label Studio says that a span begins and ends: another way for each object tag.

The spans of a vote stand in one line of positions. A ruler says which position a character of the task's text
has, and turns two positions into the ``value`` of a result item and back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from backend.questions.objects import hypertext, paragraphs
from backend.questions.objects.field import Field, scalar
from backend.questions.objects.located import Located
from backend.questions.objects.paragraphs import STRIDE


class Ruler(Protocol):
    """The positions of one object tag."""

    def located(self, field: Field, data: Mapping[str, object], /) -> Located:
        """The text that spans can be marked in."""

    def value(self, start: int, end: int, /) -> dict[str, Any]:
        """Two positions as Label Studio stores them."""

    def bounds(self, value: Mapping[str, Any], /) -> tuple[int, int] | None:
        """The positions in what Label Studio stored; ``None`` if they are not there."""


@dataclass(frozen=True, slots=True)
class TextRuler:
    """Text: Unicode code points of the task's string."""

    def located(self, field: Field, data: Mapping[str, object]) -> Located:
        """All of it."""
        text = field.text(data)
        return Located(text, range(len(text)))

    def value(self, start: int, end: int) -> dict[str, Any]:
        """``start`` and ``end``."""
        return {"start": start, "end": end}

    def bounds(self, value: Mapping[str, Any]) -> tuple[int, int] | None:
        """``start`` and ``end``."""
        return _pair(value.get("start"), value.get("end"))


@dataclass(frozen=True, slots=True)
class HyperTextRuler:
    """HyperText: ``globalOffsets``, which count through all text nodes.

    The XPaths, which come first for the editor, are left empty: it then goes by the offsets, and writes its
    own paths when the annotation is saved. Paths to what another parser made of the HTML could be wrong.
    """

    inline: bool = False

    def located(self, field: Field, data: Mapping[str, object]) -> Located:
        """What a reader sees of it."""
        return hypertext.located(scalar(field.content(data)) or "", inline=self.inline)

    def value(self, start: int, end: int) -> dict[str, Any]:
        """``globalOffsets``, beside what the editor's model must have."""
        offsets = {"start": start, "end": end}
        return {"start": "", "end": "", "startOffset": start, "endOffset": end, "globalOffsets": offsets}

    def bounds(self, value: Mapping[str, Any]) -> tuple[int, int] | None:
        """``globalOffsets``, which the editor always writes."""
        offsets = value.get("globalOffsets")
        return _pair(offsets.get("start"), offsets.get("end")) if isinstance(offsets, Mapping) else None


@dataclass(frozen=True, slots=True)
class ParagraphsRuler:
    """Paragraphs: the index of a line, as a string, and an offset in it."""

    def located(self, field: Field, data: Mapping[str, object]) -> Located:
        """What is said, without the names."""
        return paragraphs.located(field.content(data), field.text_key)

    def value(self, start: int, end: int) -> dict[str, Any]:
        """The line twice and two offsets."""
        line = str(start // STRIDE)
        return {"start": line, "end": line, "startOffset": start % STRIDE, "endOffset": end % STRIDE}

    def bounds(self, value: Mapping[str, Any]) -> tuple[int, int] | None:
        """The positions of a span within one line: the editor makes no others any more."""
        line, last = value.get("start"), value.get("end")
        offsets = _pair(value.get("startOffset"), value.get("endOffset"))
        if offsets is None or str(line) != str(last) or not str(line).isdecimal() or offsets[1] >= STRIDE:
            return None
        return int(str(line)) * STRIDE + offsets[0], int(str(line)) * STRIDE + offsets[1]


RULERS: Mapping[str, Ruler] = MappingProxyType(
    {"Text": TextRuler(), "HyperText": HyperTextRuler(), "Paragraphs": ParagraphsRuler()}
)
"""Object tag → its ruler."""


def _pair(start: object, end: object) -> tuple[int, int] | None:
    if type(start) is int and type(end) is int and 0 <= start < end:
        return start, end
    return None
