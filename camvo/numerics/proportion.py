"""How sure a share of right answers is: the interval of Clopper and Pearson."""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv

from camvo.errors import InvalidParameterError
from camvo.numerics.tolerances import TIE
from camvo.typing import Array


def upper_bound(successes: Array | float, trials: Array | float, level: float) -> Array:
    """What the true share does not exceed with probability ``level`` at the least, by Clopper and Pearson.

    Args:
        successes: from 0 to ``trials``, whole or not; of any shape, as the next.
        trials: at least 0; without any the bound is 1.
        level: in (0, 1).
    """
    bound: Array = betaincinv(np.add(successes, 1.0), np.maximum(np.subtract(trials, successes), TIE), level)
    return bound


def clopper_pearson(successes: float, trials: float, level: float = 0.95) -> tuple[float, float]:
    """The interval that holds the true share with probability ``level`` at the least, by Clopper and Pearson.

    Successes need not be whole: a sum of rewards in [0, 1] varies less than as many coins of the same mean.

    Args:
        successes: from 0 to ``trials``.
        trials: at least 0; without any the interval is [0, 1].
        level: in (0, 1).

    Raises:
        InvalidParameterError: more successes than trials, or a level outside (0, 1).

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
