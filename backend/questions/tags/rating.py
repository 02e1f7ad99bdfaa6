"""Rating: one to ``maxRating`` stars. Label Studio stores ``{"rating": 4}``, and nothing for no stars."""

from __future__ import annotations

from typing import Final

from backend.questions.controls import Control, ControlTag, NumberControl
from backend.questions.xml import Element, Tree, attribute

_FEWEST, _MOST = 2, 100


def _obstacle(element: Element, _: Tree) -> str | None:
    """Return why this Rating cannot be voted on, or ``None``."""
    stars = _stars(element)
    if not stars.isdecimal() or not _FEWEST <= int(stars) <= _MOST:
        return f'maxRating="{stars}" is not a number of stars from {_FEWEST} to {_MOST}'
    return None


def _read_control(element: Element, _: Tree) -> Control:
    """Return a control over whole numbers from 1."""
    return NumberControl("rating", 1.0, float(_stars(element)), 1.0)


TAG: Final = ControlTag(_obstacle, _read_control)


def _stars(element: Element) -> str:
    return (attribute(element, "maxRating") or "5").strip()
