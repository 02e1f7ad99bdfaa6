"""The control tags that can be voted on, and the interface that their modules implement."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from backend.questions.controls import Control
from backend.questions.objects import object_obstacle, question_fields
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
from backend.questions.xml import Element, Tree, attribute, is_true, targets


class ControlTag(Protocol):
    """The interface of a control tag's module: any module with these two functions implements it."""

    def obstacle(self, element: Element, tree: Tree, /) -> str | None:
        """Return why this element cannot be voted on, or ``None``.

        Its name, its ``toName`` and its objects are checked in :mod:`backend.questions.tags.registry`.
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

_RECORDINGS = frozenset({"audio", "audioplus", "video"})
_WHOLE_TASK = frozenset({"choices", "taxonomy", "rating", "number", "datetime", "textarea"})
"""Controls whose answers do not refer to a position in the object."""


def control_obstacle(control: Element, tree: Tree) -> str | None:
    """Return the first reason why a control cannot be voted on, or ``None``."""
    if str(control.tag).lower() == "chat":
        return "the messages that annotators add to a Chat are not voted on"
    module = CONTROL_TAGS.get(str(control.tag).lower())
    if module is None:
        return f"{control.tag} is not supported yet"
    return _misplaced(control, tree) or module.obstacle(control, tree) or _unattached(control, tree)


def _reads_instead(control: Element, heard: Element) -> bool:
    """Whether a control on a recording reads other keys of the task, such as a transcript."""
    return (
        str(heard.tag).lower() in _RECORDINGS
        and str(control.tag).lower() in _WHOLE_TASK
        and not is_true(control, "perRegion")
        and attribute(control, "camvo_fields") is not None
    )


def _misplaced(control: Element, tree: Tree) -> str | None:
    name = str(control.get("name"))
    if "{{" in name or any(str(parent.tag).lower() == "repeater" for parent in control.iterancestors()):
        return "a control inside a Repeater is not supported"
    if tree.uses[name] > 1:
        return f'the name "{name}" is used more than once in this config'
    if is_true(control, "perRegion") and str(control.tag).lower() != "choices":
        return f"perRegion is not supported for {control.tag}: regions are only given Choices"
    return "perItem is not supported yet" if is_true(control, "perItem") else None


def _unattached(control: Element, tree: Tree) -> str | None:
    for name in targets(control):
        if name not in tree.objects:
            return f'toName="{name}" names no object of this config'
        if tree.uses[name] > 1:
            return f'toName="{name}" names more than one tag of this config'
        reason = object_obstacle(tree.objects[name])
        if reason is not None and not _reads_instead(control, tree.objects[name]):
            return f'it is attached to "{name}", and {reason}'
    return None if question_fields(control, tree) else 'no object shows it a text of the task: value="$key"'
