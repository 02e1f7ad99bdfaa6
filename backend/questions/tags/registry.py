"""The control tags that can be voted on, and the interface that their modules implement."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from backend.questions.controls.control import Control
from backend.questions.tags import (
    choices,
    dates,
    number,
    pairwise,
    ranker,
    rating,
    span_labels,
    taxonomy,
    textarea,
)
from backend.questions.xml.element import Element
from backend.questions.xml.tree import Tree


class ControlTag(Protocol):
    """The interface of a control tag's module: any module with these two functions implements it."""

    def obstacle(self, element: Element, tree: Tree, /) -> str | None:
        """Return why this element cannot be voted on, or ``None``.

        Its name, its ``toName`` and its objects are checked in :mod:`backend.questions.tags.obstacles`.
        """

    def read_control(self, element: Element, tree: Tree, /) -> Control:
        """Return the control. It is only called for an element without an obstacle."""


CONTROL_TAGS: Mapping[str, ControlTag] = MappingProxyType(
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
