"""Number: any number within ``min``, ``max`` and ``step``, if the config sets them.

Label Studio stores ``{"number": 7}``. Its editor checks all three attributes, its validator none. The
attribute ``camvo_tolerance`` sets the error at which an answer is worth nothing, for example 5 for a year.
By default that is the range, or a tenth of the number if there is no range. Without it, few numbers are a
scale, and ``camvo_error`` says what a wrong one costs.
"""

from __future__ import annotations

from typing import Final

from backend.questions.controls import Control, ControlTag, NumberControl, error_obstacle, with_error
from backend.questions.xml import Element, Tree, attribute
from camvo.errors import InvalidParameterError
from camvo.votes.numbers import read_number

_ATTRIBUTES = ("min", "max", "step", "camvo_tolerance")


def _obstacle(element: Element, tree: Tree) -> str | None:
    """Return why this Number cannot be voted on, or ``None``."""
    try:
        control = _number(element)
        _ = control.aggregation
    except InvalidParameterError as error:
        written = " ".join(
            f'{name}="{value}"' for name in _ATTRIBUTES if (value := attribute(element, name)) is not None
        )
        return f"{written} does not fit together: {error}"
    return error_obstacle(element, control)


def _read_control(element: Element, _: Tree) -> Control:
    """Return the control with its bounds, step and tolerance."""
    return with_error(element, _number(element))


def _number(element: Element) -> NumberControl:
    texts = (attribute(element, name) for name in _ATTRIBUTES)
    return NumberControl("number", *(None if text is None else read_number(text) for text in texts))


TAG: Final = ControlTag(_obstacle, _read_control)
