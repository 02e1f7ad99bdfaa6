"""Choices: one label of a list, or any number of them, chosen for the whole task.

Label Studio stores ``{"choices": ["<alias or visible text>"]}``; its validator rejects the visible text of a
choice that has an alias.
"""

from __future__ import annotations

from backend.labels import closed_set
from backend.labels.closed_set import AnyOf, OneOf
from backend.labels.control import Control
from backend.labels.element import Element, attribute, is_conditional, is_true
from backend.labels.label import Label
from backend.labels.tree import Tree


def obstacle(element: Element, _: Tree) -> str | None:
    """Why this Choices cannot be voted on, or ``None``."""
    mode = _mode(element)
    if mode not in {"single", "single-radio", "multiple"}:
        return f'choice="{mode}" is no way to choose'
    if attribute(element, "value") or attribute(element, "apiUrl"):
        return "choices that come from the task's data are not supported yet"
    choices = list(element.iter("Choice"))
    if is_true(element, "allowNested") or any(choice.find(".//Choice") is not None for choice in choices):
        return "nested choices are not supported yet"
    if any(not _text(choice) for choice in choices):
        return "a Choice has no value"
    return closed_set.obstacle(_labels(element))


def read(element: Element, _: Tree) -> Control:
    """The labels in the order of the config, which is the order that breaks ties."""
    if _mode(element) == "multiple":
        return AnyOf(_labels(element), "choices", is_conditional(element))
    return OneOf(_labels(element), "choices")


def _mode(element: Element) -> str:
    return attribute(element, "choice") or "single"


def _labels(element: Element) -> tuple[Label, ...]:
    return tuple(
        Label(attribute(choice, "alias") or _text(choice), _text(choice), attribute(choice, "hint"))
        for choice in element.iter("Choice")
    )


def _text(choice: Element) -> str:
    return attribute(choice, "value") or attribute(choice, "alias") or ""
