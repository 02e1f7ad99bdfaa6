"""Labels, HyperTextLabels and ParagraphLabels: labelled spans of one text.

Label Studio stores one result item per span: ``{"start": 0, "end": 5, "labels": ["PER"]}``. The other two
tags store the label under their own names. The form of the position depends on the object tag
(:mod:`backend.questions.spans`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from backend.questions.controls import ControlTag, label_set_obstacle
from backend.questions.objects import Field, field_of_object, question_fields
from backend.questions.spans import Spans
from backend.questions.visibility import sight_of
from backend.questions.xml import Element, Label, Tree, attribute, is_true, tag_name, targets

_OBJECTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"labels": ("Text", "HyperText"), "hypertextlabels": ("HyperText",), "paragraphlabels": ("Paragraphs",)}
)
"""Tag in lower case → the object tags it can mark. The key is also the items' entry for the label."""


def _obstacle(element: Element, tree: Tree) -> str | None:
    """Return why these labels cannot be voted on, or ``None``."""
    marked_field = _marked_field(element, tree)
    if marked_field is None:
        return None  # the obstacle of the object itself is reported by obstacles.py
    if marked_field.tag not in _OBJECTS[tag_name(element)]:
        return f"{element.tag} on {marked_field.tag} is not supported: spans are marked in text"
    if marked_field not in question_fields(element, tree):
        return f'camvo_fields leaves out "{marked_field.key}", the text in which spans are marked'
    if len(targets(element)) > 1:
        return "it is attached to several objects, but spans can only be marked in one"
    return _labels_obstacle(element) or label_set_obstacle(_labels(element), fewest=1)


def marks_spans(control: Element) -> bool:
    """Return whether a control is one of these tags."""
    return tag_name(control) in _OBJECTS


def read_spans(element: Element, tree: Tree) -> Spans:
    """Return the control. Its labels keep the order of the config."""
    marked_field = _marked_field(element, tree)
    if marked_field is None:
        raise AssertionError("unreachable: a control without a text has an obstacle")
    return Spans(
        labels=_labels(element),
        key=tag_name(element),
        field=marked_field,
        inline=is_true(tree.objects[marked_field.name], "inline"),
        conditional=sight_of(tree).is_conditional(element),
    )


TAG: Final = ControlTag(_obstacle, read_spans)


def _labels_obstacle(element: Element) -> str | None:
    if attribute(element, "value"):
        return "labels that come from the task's data are not supported yet"
    if any(not _text(label) for label in element.iter("Label")):
        return "a Label has no value"
    return None


def _marked_field(element: Element, tree: Tree) -> Field | None:
    target = tree.objects.get(targets(element)[0])
    return None if target is None else field_of_object(target)


def _labels(element: Element) -> tuple[Label, ...]:
    return tuple(
        Label(attribute(label, "alias") or _text(label), _text(label), attribute(label, "hint"))
        for label in element.iter("Label")
    )


def _text(label: Element) -> str:
    return attribute(label, "value") or attribute(label, "alias") or ""
