"""Labels, HyperTextLabels and ParagraphLabels: labelled spans of one text.

Label Studio stores a result item for each span: ``{"start": 0, "end": 5, "labels": ["PER"]}``.
The other two tags keep the label under their own names, and other objects have other positions
(:mod:`backend.questions.spans.rulers`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from backend.questions.controls import closed_set
from backend.questions.label import Label
from backend.questions.objects.field import Field
from backend.questions.objects.reading import field_of, fields
from backend.questions.spans.spans import Spans
from backend.questions.xml.element import Element, attribute, is_conditional, is_true
from backend.questions.xml.tree import Tree, targets

_OBJECTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "labels": ("Text", "HyperText"),
        "hypertextlabels": ("HyperText",),
        "paragraphlabels": ("Paragraphs",),
    }
)
"""Tag in lower case → the objects whose text it can mark; it is also where its items keep their labels."""


def obstacle(element: Element, tree: Tree) -> str | None:
    """Why these labels cannot be voted on, or ``None``."""
    marked = _marked(element, tree)
    if marked is None:
        return None  # what is wrong with the object is found elsewhere
    if marked.tag not in _OBJECTS[_key(element)]:
        return f"{element.tag} on {marked.tag} is not supported: spans are marked in text"
    if marked not in fields(element, tree):
        return f'camvo_fields leaves out "{marked.key}", the text in which spans are marked'
    if len(targets(element)) > 1:
        return "it is attached to several objects, and spans are marked in one text"
    return _unnamed(element) or closed_set.obstacle(_labels(element), fewest=1)


def marks(control: Element) -> bool:
    """Whether a control is one of these tags."""
    return _key(control) in _OBJECTS


def read(element: Element, tree: Tree) -> Spans:
    """The labels in the order of the config."""
    marked = _marked(element, tree)
    if marked is None:
        raise AssertionError("unreachable: a control that is attached to no text has an obstacle")
    return Spans(
        labels=_labels(element),
        key=_key(element),
        field=marked,
        inline=is_true(tree.objects[marked.name], "inline"),
        conditional=is_conditional(element),
    )


def _unnamed(element: Element) -> str | None:
    if attribute(element, "value"):
        return "labels that come from the task's data are not supported yet"
    if any(not _text(label) for label in element.iter("Label")):
        return "a Label has no value"
    return None


def _key(element: Element) -> str:
    return str(element.tag).lower()


def _marked(element: Element, tree: Tree) -> Field | None:
    shown = tree.objects.get(targets(element)[0])
    return None if shown is None else field_of(shown)


def _labels(element: Element) -> tuple[Label, ...]:
    return tuple(
        Label(attribute(label, "alias") or _text(label), _text(label), attribute(label, "hint"))
        for label in element.iter("Label")
    )


def _text(label: Element) -> str:
    return attribute(label, "value") or attribute(label, "alias") or ""
