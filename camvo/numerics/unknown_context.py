"""The context of a task whose text nobody has embedded, because nothing reads it.

It is a vector of zeros. So it teaches a linear model of contexts nothing, and is unlike every known context.
"""

from __future__ import annotations

import numpy as np

from camvo.typing import Array


def unknown_context(dimension: int) -> Array:
    """The context of a task whose text is not embedded, shape (d,)."""
    return np.zeros(dimension)


def is_known(context: Array) -> bool:
    """Whether a context, shape (d,), comes from an embedding.

    >>> is_known(unknown_context(3)), is_known(np.array([1.0, 0.0, 0.0]))
    (False, True)
    """
    return bool(context.any())
