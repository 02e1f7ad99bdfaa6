"""Numbers without the digits that nobody reads."""

from __future__ import annotations

from typing import Final

import numpy as np

from camvo.typing import Array

_DIGITS: Final = 6


def significant(values: Array) -> Array:
    """The values, shape (n,), each rounded to six significant digits.

    >>> significant(np.array([0.7337623938910777, 0.00015641702904853016, 0.0])).tolist()
    [0.733762, 0.000156417, 0.0]
    """
    return np.array([float(f"{value:.{_DIGITS}g}") for value in values.tolist()])
