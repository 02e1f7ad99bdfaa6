"""How sure a share of right answers is: the interval of Clopper and Pearson."""

from __future__ import annotations

from scipy.special import betaincinv

from camvo.errors import InvalidParameterError


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
    high = 1.0 if successes == trials else float(betaincinv(successes + 1.0, trials - successes, 1.0 - tail))
    return low, high
