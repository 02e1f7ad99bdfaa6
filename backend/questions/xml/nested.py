"""Nested choices: the labels are the leaves of a tree, and Label Studio stores the path to each leaf."""

from __future__ import annotations

from collections.abc import Iterator

from backend.questions.label import Label
from backend.questions.xml.element import Element, attribute


def child_choices(element: Element) -> Iterator[Element]:
    """Yield the choices right below a tag; Views between them do not count as a level."""
    for child in element:
        if str(child.tag) == "Choice":
            yield child
        elif isinstance(child.tag, str):
            yield from child_choices(child)


def leaf_labels(element: Element, separator: str) -> tuple[Label, ...]:
    """Return the choices that have no choices below them, in document order, named by their whole paths."""
    return tuple(_leaf_labels(element, separator, (), ()))


def _leaf_labels(
    element: Element, separator: str, stored: tuple[str, ...], visible: tuple[str, ...]
) -> Iterator[Label]:
    for choice in child_choices(element):
        path, words = (*stored, stored_name(choice)), (*visible, visible_name(choice))
        if next(child_choices(choice), None) is None:
            hint = attribute(choice, "hint")
            yield Label(separator.join(path), separator.join(words), hint, path)
        else:
            yield from _leaf_labels(choice, separator, path, words)


def stored_name(choice: Element) -> str:
    """Return what Label Studio stores for a choice: its alias, else its value; blank if it has neither."""
    return attribute(choice, "alias") or attribute(choice, "value") or ""


def visible_name(choice: Element) -> str:
    """Return what annotators see of a choice: its value, else its alias; blank if it has neither."""
    return attribute(choice, "value") or attribute(choice, "alias") or ""
