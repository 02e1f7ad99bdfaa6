"""Rating: one to ``maxRating`` stars. Label Studio stores ``{"rating": 4}``, and nothing for no stars.

The attribute ``camvo_error`` says what a wrong rating costs: the stars that it is off by default.
"""

from __future__ import annotations

from typing import Final

from backend.questions.controls import Control, ControlTag, NumberControl, error_obstacle, with_error
from backend.questions.xml import Element, Tree, attribute

_FEWEST, _MOST = 2, 100


def _obstacle(element: Element, _: Tree) -> str | None:
    """Return why this Rating cannot be voted on, or ``None``."""
    stars = _stars(element)
    if not stars.isdecimal() or not _FEWEST <= int(stars) <= _MOST:
        return f'maxRating="{stars}" is not a number of stars from {_FEWEST} to {_MOST}'
    return error_obstacle(element, _stars_of(element))


def _read_control(element: Element, _: Tree) -> Control:
    """Return a control over whole numbers from 1."""
    return with_error(element, _stars_of(element))


TAG: Final = ControlTag(_obstacle, _read_control)


def _stars_of(element: Element) -> NumberControl:
    return NumberControl("rating", 1.0, float(_stars(element)), 1.0)


def _stars(element: Element) -> str:
    return (attribute(element, "maxRating") or "5").strip()
