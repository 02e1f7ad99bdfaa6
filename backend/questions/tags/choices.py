"""Choices: one label of a list, or any number of them, chosen for the whole task or for each region.

Label Studio stores ``{"choices": ["<alias or visible text>"]}``. Its validator rejects the visible text of a
choice that has an alias. With ``allowNested`` the editor stores paths, ``{"choices": [["A", "A1"]]}``, and
shows nothing else, although the validator fails on them. Without it the editor shows the outermost choices.
"""

from __future__ import annotations

from typing import Final

from backend.questions import xml
from backend.questions.controls import AnyOf, Control, ControlTag, OneOf, label_set_obstacle
from backend.questions.tags.choices_per_region import read_region_choices, regions_obstacle
from backend.questions.xml import Element, Label, Tree, attribute, is_conditional, is_true

_SEPARATOR = " / "


def _obstacle(element: Element, tree: Tree) -> str | None:
    """Return why this Choices cannot be voted on, or ``None``."""
    mode = _mode(element)
    if mode not in {"single", "single-radio", "multiple"}:
        return f'choice="{mode}" is not one of single, single-radio and multiple'
    if attribute(element, "value") or attribute(element, "apiUrl"):
        return "choices that come from the task's data are not supported yet"
    if any(not xml.visible_name(choice) for choice in element.iter("Choice")):
        return "a Choice has no value"
    reason = regions_obstacle(element, tree) if is_true(element, "perRegion") else None
    return reason or label_set_obstacle(_labels(element))


def _read_control(element: Element, tree: Tree) -> Control:
    """Return the control. Its labels keep the order of the config, which breaks ties."""
    several = _mode(element) == "multiple"
    if is_true(element, "perRegion"):
        return read_region_choices(element, tree, _labels(element), several=several)
    if several:
        return AnyOf(_labels(element), "choices", is_conditional(element))
    return OneOf(_labels(element), "choices")


TAG: Final = ControlTag(_obstacle, _read_control)


def _mode(element: Element) -> str:
    return attribute(element, "choice") or "single"


def _labels(element: Element) -> tuple[Label, ...]:
    if is_true(element, "allowNested"):
        return xml.leaf_labels(element, _SEPARATOR)
    return tuple(
        Label(xml.stored_name(choice), xml.visible_name(choice), attribute(choice, "hint"))
        for choice in xml.child_choices(element)
    )
