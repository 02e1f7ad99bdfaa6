"""Choices with perRegion: read from the config as a :class:`RegionChoices`."""

from __future__ import annotations

from dataclasses import replace

from backend.questions.objects import field_of_object, question_fields
from backend.questions.spans import RULERS, RegionChoices
from backend.questions.tags import span_labels
from backend.questions.xml import Element, Label, Tree, attribute, is_true, targets


def regions_obstacle(element: Element, tree: Tree) -> str | None:
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


def read_region_choices(
    element: Element, tree: Tree, labels: tuple[Label, ...], *, several: bool
) -> RegionChoices:
    """Return the control that gives classes to the regions of other controls on the same text."""
    controls = _region_controls(element, tree)
    spans = span_labels.read_spans(controls[0], tree)
    wanted = _listed(element, "whenLabelValue")
    return RegionChoices(
        spans=replace(spans, labels=labels, key="choices", conditional=True),
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
    names = _listed(element, "whenTagName")
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
