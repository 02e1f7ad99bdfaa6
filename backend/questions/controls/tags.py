"""The control tags that can be voted on. To support another one, write its module and enter it here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from backend.questions.controls import choices, dates, number, pairwise, ranker, rating, taxonomy, textarea
from backend.questions.controls.control import Control
from backend.questions.spans import span_labels
from backend.questions.xml.element import Element
from backend.questions.xml.tree import Tree


class ControlTag(Protocol):
    """What a control tag's module has to offer. A module with these two functions is one."""

    def obstacle(self, element: Element, tree: Tree, /) -> str | None:
        """Why this very control cannot be voted on, or ``None``.

        Its name, its ``toName`` and the objects that it is attached to are checked elsewhere.
        """

    def read(self, element: Element, tree: Tree, /) -> Control:
        """The control; only called where there is no obstacle."""


SUPPORTED: Mapping[str, ControlTag] = MappingProxyType(
    {
        "choices": choices,
        "taxonomy": taxonomy,
        "rating": rating,
        "number": number,
        "datetime": dates,
        "textarea": textarea,
        "pairwise": pairwise,
        "ranker": ranker,
        "hypertextlabels": span_labels,
        "labels": span_labels,
        "paragraphlabels": span_labels,
    }
)
"""Tag in lower case → its module. The lower-case name is also the ``type`` of the tag's result items."""
