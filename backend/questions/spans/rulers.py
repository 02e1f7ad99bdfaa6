"""How Label Studio stores the position of a span, which differs between object tags.

Votes count positions along one line. A ruler gives each character of the task's text its position, and
converts two positions to the ``value`` of a result item and back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from backend.questions.objects import hypertext, paragraphs
from backend.questions.objects.field import Field, scalar_text
from backend.questions.objects.located_text import LocatedText
from backend.questions.objects.paragraphs import STRIDE


class Ruler(Protocol):
    """The positions of one object tag."""

    def locate(self, field: Field, data: Mapping[str, object], /) -> LocatedText:
        """Return the text in which spans can be marked, with its positions."""

    def value(self, start: int, end: int, /) -> dict[str, Any]:
        """Return two positions as Label Studio stores them."""

    def bounds(self, value: Mapping[str, Any], /) -> tuple[int, int] | None:
        """Return the two positions in a stored value; ``None`` if they are missing."""


@dataclass(frozen=True, slots=True)
class TextRuler:
    """Text: positions are Unicode code points of the task's string."""

    def locate(self, field: Field, data: Mapping[str, object]) -> LocatedText:
        """Return the whole text."""
        text = field.text(data)
        return LocatedText(text, range(len(text)))

    def value(self, start: int, end: int) -> dict[str, Any]:
        """Return the entries ``start`` and ``end``."""
        return {"start": start, "end": end}

    def bounds(self, value: Mapping[str, Any]) -> tuple[int, int] | None:
        """Return the entries ``start`` and ``end``."""
        return _pair(value.get("start"), value.get("end"))


@dataclass(frozen=True, slots=True)
class HyperTextRuler:
    """HyperText: positions are ``globalOffsets``, which count through all text nodes.

    The editor prefers XPaths. They are left empty, because those of another HTML parser could be wrong. The
    editor then uses the offsets, and writes its own paths when the annotation is saved.
    """

    inline: bool = False

    def locate(self, field: Field, data: Mapping[str, object]) -> LocatedText:
        """Return the text that a reader sees."""
        return hypertext.locate_html(scalar_text(field.content(data)) or "", inline=self.inline)

    def value(self, start: int, end: int) -> dict[str, Any]:
        """Return ``globalOffsets`` with the other entries that the editor's model requires."""
        offsets = {"start": start, "end": end}
        return {"start": "", "end": "", "startOffset": start, "endOffset": end, "globalOffsets": offsets}

    def bounds(self, value: Mapping[str, Any]) -> tuple[int, int] | None:
        """Return ``globalOffsets``, which the editor always writes."""
        offsets = value.get("globalOffsets")
        return _pair(offsets.get("start"), offsets.get("end")) if isinstance(offsets, Mapping) else None


@dataclass(frozen=True, slots=True)
class ParagraphsRuler:
    """Paragraphs: the stored position is a line's index, as a string, and an offset in the line."""

    def locate(self, field: Field, data: Mapping[str, object]) -> LocatedText:
        """Return the words without the speakers' names."""
        return paragraphs.locate_dialogue(field.content(data), field.name_key, field.text_key)

    def value(self, start: int, end: int) -> dict[str, Any]:
        """Return the line as both start and end, with two offsets."""
        line = str(start // STRIDE)
        return {"start": line, "end": line, "startOffset": start % STRIDE, "endOffset": end % STRIDE}

    def bounds(self, value: Mapping[str, Any]) -> tuple[int, int] | None:
        """Return the positions of a span within one line; the editor no longer makes longer ones."""
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
