"""Nested choices: the labels are the leaves of a tree, and Label Studio stores the path to each."""

from __future__ import annotations

from collections.abc import Iterator

from backend.questions.label import Label
from backend.questions.xml.element import Element, attribute


def children(element: Element) -> Iterator[Element]:
    """The choices right below a tag, whatever Views stand around them."""
    for child in element:
        if str(child.tag) == "Choice":
            yield child
        elif isinstance(child.tag, str):
            yield from children(child)


def leaves(element: Element, separator: str) -> tuple[Label, ...]:
    """The choices without choices below them, in document order, under the names of their whole paths."""
    return tuple(_leaves(element, separator, (), ()))


def _leaves(
    element: Element, separator: str, stored: tuple[str, ...], shown: tuple[str, ...]
) -> Iterator[Label]:
    for child in children(element):
        path, words = (*stored, stored_name(child)), (*shown, visible_name(child))
        if next(children(child), None) is None:
            hint = attribute(child, "hint")
            yield Label(separator.join(path), separator.join(words), hint, path)
        else:
            yield from _leaves(child, separator, path, words)


def stored_name(choice: Element) -> str:
    """What Label Studio stores for a choice: its alias, or else its value; blank if it has neither."""
    return attribute(choice, "alias") or attribute(choice, "value") or ""


def visible_name(choice: Element) -> str:
    """What annotators see: its value, or else its alias; blank if it has neither."""
    return attribute(choice, "value") or attribute(choice, "alias") or ""
