"""Choices: one label of a list, or any number of them, chosen for the whole task or for each region.

Label Studio stores ``{"choices": ["<alias or visible text>"]}``; its validator rejects the visible text of a
choice that has an alias. With ``allowNested`` the editor stores paths, ``{"choices": [["A", "A1"]]}``, and
shows no other form, though the validator fails on it. Without, it shows the outermost choices only.
"""

from __future__ import annotations

from backend.questions.controls import closed_set
from backend.questions.controls.closed_set import AnyOf, OneOf
from backend.questions.controls.control import Control
from backend.questions.label import Label
from backend.questions.spans import region_choices
from backend.questions.xml import nested
from backend.questions.xml.element import Element, attribute, is_conditional, is_true
from backend.questions.xml.tree import Tree

_SEPARATOR = " / "


def obstacle(element: Element, tree: Tree) -> str | None:
    """Why this Choices cannot be voted on, or ``None``."""
    mode = _mode(element)
    if mode not in {"single", "single-radio", "multiple"}:
        return f'choice="{mode}" is not one of single, single-radio and multiple'
    if attribute(element, "value") or attribute(element, "apiUrl"):
        return "choices that come from the task's data are not supported yet"
    if any(not nested.visible_name(choice) for choice in element.iter("Choice")):
        return "a Choice has no value"
    unclear = region_choices.obstacle(element, tree) if is_true(element, "perRegion") else None
    return unclear or closed_set.obstacle(_labels(element))


def read(element: Element, tree: Tree) -> Control:
    """The labels in the order of the config, which is the order that breaks ties."""
    several = _mode(element) == "multiple"
    if is_true(element, "perRegion"):
        return region_choices.read(element, tree, _labels(element), several=several)
    if several:
        return AnyOf(_labels(element), "choices", is_conditional(element))
    return OneOf(_labels(element), "choices")


def _mode(element: Element) -> str:
    return attribute(element, "choice") or "single"


def _labels(element: Element) -> tuple[Label, ...]:
    if is_true(element, "allowNested"):
        return nested.leaves(element, _SEPARATOR)
    return tuple(
        Label(nested.stored_name(choice), nested.visible_name(choice), attribute(choice, "hint"))
        for choice in nested.children(element)
    )
