"""The control tags that can be voted on. To support another one, write its module and enter it here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from backend.labels import choices
from backend.labels.element import Element
from backend.labels.label import Label


class ControlTag(Protocol):
    """What a control tag's module has to offer. A module with these four functions is one."""

    def obstacle(self, control: Element, /) -> str | None:
        """Why this very control cannot be voted on, or ``None``."""

    def labels(self, control: Element, /) -> tuple[Label, ...]:
        """The labels in the order of the config; only called where there is no obstacle."""

    def value(self, label: Label, /) -> dict[str, object]:
        """The ``value`` of the result item that Label Studio stores for a label."""

    def stored(self, value: Mapping[str, object], /) -> str | None:
        """The label value that a result item's ``value`` holds, ``None`` if it does not hold exactly one."""


SUPPORTED: Mapping[str, ControlTag] = MappingProxyType({"choices": choices})
"""Tag in lower case → its module. The lower-case name is also the ``type`` of the tag's result items."""
