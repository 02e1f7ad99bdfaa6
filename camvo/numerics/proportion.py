"""Confidence bounds for a proportion, by Clopper and Pearson (1934)."""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv

from camvo.errors import InvalidParameterError
from camvo.numerics.tolerances import TIE
from camvo.typing import Array


def upper_bound(successes: Array | float, trials: Array | float, level: float) -> Array:
    """Compute the one-sided upper Clopper–Pearson bound of a proportion.

    With probability at least ``level`` the true proportion does not exceed the bound.

    Args:
        successes: between 0 and ``trials``, not necessarily whole; any shape.
        trials: at least 0, of the same shape. The bound is 1 for 0 trials.
        level: the confidence, in (0, 1).

    Returns:
        The bounds, in the shape of the arguments.
    """
    bound: Array = betaincinv(np.add(successes, 1.0), np.maximum(np.subtract(trials, successes), TIE), level)
    return bound


def clopper_pearson(successes: float, trials: float, level: float = 0.95) -> tuple[float, float]:
    """Compute the two-sided Clopper–Pearson interval of a proportion.

    The interval holds the true proportion with probability at least ``level``. Successes need not be whole:
    a sum of rewards in [0, 1] varies less than as many Bernoulli trials with the same mean.

    Args:
        successes: between 0 and ``trials``.
        trials: at least 0. The interval is [0, 1] for 0 trials.
        level: the confidence, in (0, 1).

    Returns:
        The lower and the upper bound.

    Raises:
        InvalidParameterError: there are more successes than trials, or the level is outside (0, 1).

    >>> tuple(round(bound, 3) for bound in clopper_pearson(9, 10))
    (0.555, 0.997)
    """
    if not (0.0 <= successes <= trials and 0.0 < level < 1.0):
        raise InvalidParameterError(
            f"need 0 ≤ successes ≤ trials and a level in (0, 1), got {successes}, {trials}, {level}"
        )
    tail = (1.0 - level) / 2.0
    low = 0.0 if successes == 0 else float(betaincinv(successes, trials - successes + 1.0, tail))
    return low, float(upper_bound(successes, trials, 1.0 - tail))
