"""Taxonomy: one path of a tree, or any number of them.

Label Studio stores ``{"taxonomy": [["Animal", "Dog"]]}``, with aliases in place of values. Models vote on the
leaves. Unless ``leafsOnly`` is set, annotators can choose an inner node; such an annotation is ignored.
"""

from __future__ import annotations

from typing import Final

from backend.questions import xml
from backend.questions.controls import AnyOf, Control, ControlTag, OneOf, label_set_obstacle
from backend.questions.visibility import sight_of
from backend.questions.xml import Element, Label, Tree, attribute


def _obstacle(element: Element, _: Tree) -> str | None:
    """Return why this Taxonomy cannot be voted on, or ``None``."""
    if attribute(element, "value") or attribute(element, "apiUrl"):
        return "a taxonomy that is not in the label config is not supported yet"
    usages = attribute(element, "maxUsages")
    if usages not in {None, "1"}:
        return f'maxUsages="{usages}" is not supported yet: set it to 1 or leave it out'
    if any(not xml.visible_name(choice) for choice in element.iter("Choice")):
        return "a Choice has no value"
    return label_set_obstacle(_labels(element))


def _read_control(element: Element, tree: Tree) -> Control:
    """Return the control over the leaves: one label with ``maxUsages="1"``, otherwise any number."""
    if attribute(element, "maxUsages") == "1":
        return OneOf(_labels(element), "taxonomy")
    return AnyOf(_labels(element), "taxonomy", sight_of(tree).is_conditional(element))


TAG: Final = ControlTag(_obstacle, _read_control)


def _labels(element: Element) -> tuple[Label, ...]:
    return xml.leaf_labels(element, element.get("pathSeparator") or xml.NESTED)
