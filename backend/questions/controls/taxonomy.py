"""Taxonomy: one path of a tree, or any number of them.

Label Studio stores ``{"taxonomy": [["Animal", "Dog"]]}``, with aliases where there are any. The vote is over
the leaves: annotators may choose an inner node unless ``leafsOnly`` is set; such an answer teaches nothing.
"""

from __future__ import annotations

from backend.questions.controls import closed_set
from backend.questions.controls.closed_set import AnyOf, OneOf
from backend.questions.controls.control import Control
from backend.questions.label import Label
from backend.questions.xml import nested
from backend.questions.xml.element import Element, attribute, is_conditional
from backend.questions.xml.tree import Tree


def obstacle(element: Element, _: Tree) -> str | None:
    """Why this Taxonomy cannot be voted on, or ``None``."""
    if attribute(element, "value") or attribute(element, "apiUrl"):
        return "a taxonomy that is not in the label config is not supported yet"
    usages = attribute(element, "maxUsages")
    if usages not in {None, "1"}:
        return f'maxUsages="{usages}" is not supported yet: it is 1, or left out'
    if any(not nested.visible_name(choice) for choice in element.iter("Choice")):
        return "a Choice has no value"
    return closed_set.obstacle(_labels(element))


def read(element: Element, _: Tree) -> Control:
    """The leaves in document order; exactly one of them with ``maxUsages="1"``, else any number."""
    if attribute(element, "maxUsages") == "1":
        return OneOf(_labels(element), "taxonomy")
    return AnyOf(_labels(element), "taxonomy", is_conditional(element))


def _labels(element: Element) -> tuple[Label, ...]:
    return nested.leaves(element, element.get("pathSeparator") or " / ")
