"""Attributes of a label config's XML elements, read the way Label Studio's editor reads them."""

from __future__ import annotations

from typing import Any, TypeAlias

Element: TypeAlias = Any
"""An lxml element; lxml has no type hints."""


def attribute(element: Element, name: str) -> str | None:
    """Return an attribute's value; ``None`` if it is absent or blank.

    The case of the name is ignored, because the editor reads all names in lower case.
    """
    for key, value in element.attrib.items():
        if str(key).lower() == name.lower() and str(value).strip():
            return str(value)
    return None


def is_true(element: Element, name: str) -> bool:
    """Return whether a boolean attribute is switched on."""
    return (attribute(element, name) or "").strip().lower() == "true"


def is_conditional(element: Element) -> bool:
    """Return whether the control, or a View around it, has a condition on which annotators see it."""
    names = ("visibleWhen", "whenTagName", "whenLabelValue", "whenChoiceValue", "whenRole")
    return any(attribute(tag, name) for tag in (element, *element.iterancestors()) for name in names)
