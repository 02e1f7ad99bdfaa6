"""Reading attributes of a label config's XML elements the way Label Studio's editor does."""

from __future__ import annotations

from typing import Any, TypeAlias

Element: TypeAlias = Any
"""An element of lxml, which has no type hints."""


def attribute(element: Element, name: str) -> str | None:
    """An attribute whatever the case of its name: the editor reads them all in lower case.

    Blank counts as absent.
    """
    for key, value in element.attrib.items():
        if str(key).lower() == name.lower() and str(value).strip():
            return str(value)
    return None


def is_true(element: Element, name: str) -> bool:
    """Whether a boolean attribute is switched on."""
    return (attribute(element, name) or "").strip().lower() == "true"


def is_conditional(element: Element) -> bool:
    """Whether annotators see a control only sometimes: it, or a View around it, has a condition."""
    names = ("visibleWhen", "whenTagName", "whenLabelValue", "whenChoiceValue", "whenRole")
    return any(attribute(tag, name) for tag in (element, *element.iterancestors()) for name in names)
