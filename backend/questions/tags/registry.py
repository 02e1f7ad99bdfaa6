"""The control tags that can be voted on."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from backend.questions.controls import ControlTag
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
from backend.questions.visibility import sight_of
from backend.questions.xml import Element, Tree, attribute, is_true, tag_name, targets

CONTROL_TAGS: Mapping[str, ControlTag] = MappingProxyType(
    {
        "choices": choices.TAG,
        "taxonomy": taxonomy.TAG,
        "rating": rating.TAG,
        "number": number.TAG,
        "datetime": dates.TAG,
        "textarea": textarea.TAG,
        "pairwise": pairwise.TAG,
        "ranker": ranker.TAG,
        "hypertextlabels": span_labels.TAG,
        "labels": span_labels.TAG,
        "paragraphlabels": span_labels.TAG,
    }
)
"""Tag in lower case → how it is read. The lower-case name is also the ``type`` of the tag's result items."""

_RECORDINGS = frozenset({"audio", "audioplus", "video"})
_WHOLE_TASK = frozenset({"choices", "taxonomy", "rating", "number", "datetime", "textarea"})
"""Controls whose answers do not refer to a position in the object."""


def control_obstacle(control: Element, tree: Tree) -> str | None:
    """Return the first reason why a control cannot be voted on, or ``None``."""
    if tag_name(control) == "chat":
        return "the messages that annotators add to a Chat are not voted on"
    tag = CONTROL_TAGS.get(tag_name(control))
    if tag is None:
        return f"{control.tag} is not supported yet"
    return _misplaced(control, tree) or tag.obstacle(control, tree) or _unattached(control, tree)


def _reads_instead(control: Element, heard: Element) -> bool:
    """Whether a control on a recording reads other keys of the task, such as a transcript."""
    return (
        tag_name(heard) in _RECORDINGS
        and tag_name(control) in _WHOLE_TASK
        and not is_true(control, "perRegion")
        and attribute(control, "camvo_fields") is not None
    )


def _misplaced(control: Element, tree: Tree) -> str | None:
    name = str(control.get("name"))
    if (unseen := _unseen(control, tree) or _in_small_letters(control)) is not None:
        return unseen
    if "{{" in name or any(tag_name(parent) == "repeater" for parent in control.iterancestors()):
        return "a control inside a Repeater is not supported"
    if tree.uses[name] > 1:
        return f'the name "{name}" is used more than once in this config'
    if is_true(control, "perRegion") and tag_name(control) != "choices":
        return f"perRegion is not supported for {control.tag}: regions are only given Choices"
    return "perItem is not supported yet" if is_true(control, "perItem") else None


def _unseen(control: Element, tree: Tree) -> str | None:
    sight = sight_of(tree)
    if (hidden := sight.never(control)) is not None:
        return f"annotators never see it: {hidden}"
    return sight.region_obstacle(control)


def _in_small_letters(control: Element) -> str | None:
    """Name labels that Label Studio's editor shows, but its server does not know."""
    for tag in control.iter("*"):
        name = str(tag.tag).capitalize()
        if name in {"Choice", "Label"} and tag.tag != name:
            return f"its labels are written <{tag.tag}>, and Label Studio's server knows only <{name}>"
    return None


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
