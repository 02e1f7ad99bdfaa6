"""Choices: one label of a list, or any number of them, chosen for the whole task or for each region.

Label Studio stores ``{"choices": ["<alias or visible text>"]}``. Its validator rejects the visible text of a
choice that has an alias. With ``allowNested`` the editor stores paths, ``{"choices": [["A", "A1"]]}``, and
shows nothing else, although the validator fails on them. Without it the editor shows the outermost choices.

With ``camvo_ordered="true"`` the labels are a scale, the lowest first; ``camvo_error`` says what a wrong one
costs.
"""

from __future__ import annotations

from typing import Final

from backend.questions import xml
from backend.questions.controls import (
    AnyOf,
    Control,
    ControlTag,
    OneOf,
    error_obstacle,
    label_set_obstacle,
    one_of_scale,
)
from backend.questions.objects import field_of_object, question_fields
from backend.questions.spans import RULERS, RegionChoices
from backend.questions.tags import span_labels
from backend.questions.visibility import sight_of
from backend.questions.xml import Element, Label, Tree, attribute, is_true, targets


def _obstacle(element: Element, tree: Tree) -> str | None:
    """Return why this Choices cannot be voted on, or ``None``."""
    mode = _mode(element)
    if mode not in {"single", "single-radio", "multiple"}:
        return f'choice="{mode}" is not one of single, single-radio and multiple'
    if attribute(element, "value") or attribute(element, "apiUrl"):
        return "choices that come from the task's data are not supported yet"
    if any(not xml.visible_name(choice) for choice in element.iter("Choice")):
        return "a Choice has no value"
    reason = _regions_obstacle(element, tree) if is_true(element, "perRegion") else None
    return reason or label_set_obstacle(_labels(element)) or _order_obstacle(element)


def _read_control(element: Element, tree: Tree) -> Control:
    """Return the control. Its labels keep the order of the config, which breaks ties."""
    several = _mode(element) == "multiple"
    if is_true(element, "perRegion"):
        return _read_region_choices(element, tree, _labels(element), several=several)
    if several:
        return AnyOf(_labels(element), "choices", sight_of(tree).is_conditional(element))
    return one_of_scale(element, OneOf(_labels(element), "choices"))


def _order_obstacle(element: Element) -> str | None:
    """Return why the labels cannot be read as a scale, or ``None`` if they can or need not."""
    if is_true(element, "camvo_ordered") and (
        _mode(element) == "multiple" or is_true(element, "perRegion") or is_true(element, "allowNested")
    ):
        return "camvo_ordered is for one label of a flat list about the whole task"
    return error_obstacle(element, OneOf(_labels(element), "choices"))


def _mode(element: Element) -> str:
    return attribute(element, "choice") or "single"


def _labels(element: Element) -> tuple[Label, ...]:
    if is_true(element, "allowNested"):
        return xml.leaf_labels(element, xml.NESTED)
    return xml.child_labels(element)


def _regions_obstacle(element: Element, tree: Tree) -> str | None:
    """Return why the regions cannot be given a class, or ``None``."""
    if is_true(element, "allowNested"):
        return "nested choices for regions are not supported yet"
    target = tree.objects.get(targets(element)[0])
    marked_field = None if target is None else field_of_object(target)
    if marked_field is None:
        return None  # the obstacle of the object itself is reported by obstacles.py
    if marked_field.tag not in RULERS:
        return f"perRegion on {marked_field.tag} is not supported: only regions of a text are predicted"
    if marked_field not in question_fields(element, tree):
        return f'camvo_fields leaves out "{marked_field.key}", the text of the regions'
    if not _region_controls(element, tree):
        return "perRegion needs Labels on the same text that are predicted: their regions get the choices"
    return None


def _read_region_choices(
    element: Element, tree: Tree, labels: tuple[Label, ...], *, several: bool
) -> RegionChoices:
    """Return the control that gives classes to the regions of other controls on the same text."""
    controls = _region_controls(element, tree)
    spans = span_labels.read_spans(controls[0], tree)
    wanted = _listed(element, "whenLabelValue")
    return RegionChoices(
        labels=labels,
        key="choices",
        field=spans.field,
        inline=spans.inline,
        conditional=True,
        controls=tuple(str(control.get("name")) for control in controls),
        only=tuple(
            label.value
            for control in controls
            for label in span_labels.read_spans(control, tree).labels
            if {label.value, label.text} & wanted
        ),
        several=several,
    )


def _region_controls(element: Element, tree: Tree) -> list[Element]:
    """Return the controls that mark spans in the same text and that ``whenTagName`` allows."""
    about_choices = (attribute(element, "visibleWhen") or "").startswith("choice-")
    names = set() if about_choices else _listed(element, "whenTagName")
    return [
        control
        for control in tree.controls
        if span_labels.marks_spans(control)
        and targets(control) == targets(element)
        and (not names or control.get("name") in names)
        and span_labels.TAG.obstacle(control, tree) is None
    ]


def _listed(element: Element, name: str) -> set[str]:
    return {part.strip() for part in (attribute(element, name) or "").split(",") if part.strip()}


TAG: Final = ControlTag(_obstacle, _read_control)
