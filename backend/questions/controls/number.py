"""Number: any number, within ``min``, ``max`` and ``step`` if the config has them.

Label Studio stores ``{"number": 7}``; its validator checks none of the three, its editor all. The attribute
``camvo_tolerance`` says which error makes an answer worthless (a year: 5; a price: 20), where the range, or
without one a tenth of the number, would be too generous or too strict.
"""

from __future__ import annotations

from backend.questions.controls.control import Control
from backend.questions.controls.numbers import NumberControl
from backend.questions.xml.element import Element, attribute
from backend.questions.xml.tree import Tree
from camvo.errors import InvalidParameterError
from camvo.votes.numbers import read_number

_ATTRIBUTES = ("min", "max", "step", "camvo_tolerance")


def obstacle(element: Element, tree: Tree) -> str | None:
    """Why this Number cannot be voted on, or ``None``."""
    try:
        _ = read(element, tree).aggregation
    except InvalidParameterError as error:
        written = " ".join(
            f'{name}="{value}"' for name in _ATTRIBUTES if (value := attribute(element, name)) is not None
        )
        return f"{written} does not fit together: {error}"
    return None


def read(element: Element, _: Tree) -> Control:
    """The bounds, the step and the tolerance."""
    given = (attribute(element, name) for name in _ATTRIBUTES)
    return NumberControl("number", *(None if text is None else read_number(text) for text in given))
