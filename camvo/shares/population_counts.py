"""Exact bounds of how many items of a finite population are marked, from a random sample without replacement.

The number of marked items in the sample has a hypergeometric distribution. The bounds hold all counts that a
one-sided test does not reject: Clopper and Pearson's interval for a finite population (Buonaccorsi, "A note
on confidence intervals for proportions in finite populations", The American Statistician 1987). Each bound is
passed with a probability of at most its tail, whatever the count.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from camvo.errors import InvalidParameterError
from camvo.numerics.tolerances import TIE
from camvo.typing import Array

Counts = NDArray[np.int64]

_AT_ONCE = 2000
"""Cases that are summed together, which bounds the memory."""


def count_bounds(
    marked: ArrayLike, drawn: ArrayLike, population: ArrayLike, tail: float = 0.025
) -> tuple[Counts, Counts]:
    """Compute the least and the largest plausible number of marked items in a population.

    Args:
        marked: marked items in the sample, any shape.
        drawn: items in the sample.
        population: items in the population; all three broadcast against one another.
        tail: the probability with which each bound may fail, in (0, 1).

    Returns:
        The lower and the upper bounds, in the common shape.

    Raises:
        InvalidParameterError: not 0 ≤ marked ≤ drawn ≤ population, or the tail is outside (0, 1).

    >>> low, high = count_bounds(0, 300, 5000)
    >>> int(low), int(high)
    (0, 59)
    """
    x, n, size = np.broadcast_arrays(
        *(np.asarray(each, dtype=np.int64) for each in (marked, drawn, population))
    )
    if not (np.all(x >= 0) and np.all(x <= n) and np.all(n <= size) and 0.0 < tail < 1.0):
        raise InvalidParameterError("need 0 ≤ marked ≤ drawn ≤ population and a tail in (0, 1)")
    low = _largest_rejected(x, n, size, tail) + 1
    # what is marked in one half of the items is not marked in the other
    high = size - (_largest_rejected(n - x, n, size, tail) + 1)
    return low, high


def _largest_rejected(x: Counts, n: Counts, size: Counts, tail: float) -> Counts:
    """The largest count of marked items with which ``x`` or more in the sample are too improbable.

    The probability of ``x`` or more rises with the count, so bisection finds it. ``x − 1`` marked items are
    too few for what the sample shows.
    """
    cases, index = np.unique(np.stack([x.ravel(), n.ravel(), size.ravel()]), axis=1, return_inverse=True)
    found = np.empty(cases.shape[1], dtype=np.int64)
    for least in range(0, cases.shape[1], _AT_ONCE):
        part = slice(least, least + _AT_ONCE)
        found[part] = _bisect(cases[0, part], cases[1, part], cases[2, part], tail)
    return found[index].reshape(x.shape)


def _bisect(x: Counts, n: Counts, size: Counts, tail: float) -> Counts:
    rejected, plausible = x - 1, size - (n - x)
    while np.any(plausible - rejected > 1):
        middle = (rejected + plausible) // 2
        probable = _at_least(x, n, size, np.maximum(middle, 0)) > tail - TIE
        rejected, plausible = np.where(probable, rejected, middle), np.where(probable, middle, plausible)
        rejected = np.minimum(rejected, plausible - 1)
    return rejected


def _at_least(x: Counts, n: Counts, size: Counts, marked: Counts) -> Array:
    """The probability of ``x`` or more marked items in the sample, shape (cases,).

    The tail of ``x`` that does not hold the mean is summed, over far more than the deviation √n / 2.
    """
    upper = marked * n < x * size
    steps = np.arange(30 + int(6.5 * np.sqrt(n.max())))[:, None]
    at = np.where(upper, x + steps, x - 1 - steps)
    left = size - marked
    possible = (at >= 0) & (at <= marked) & (at <= n) & (n - at <= left)
    inside = np.where(possible, at, np.maximum(n - left, 0))
    log_chance = _log_choose(marked, inside) + _log_choose(left, n - inside) - _log_choose(size, n)
    sums: Array = np.where(possible, np.exp(log_chance), 0.0).sum(axis=0)
    return np.where(upper, sums, 1.0 - sums)


def _log_choose(of: Counts, taken: Counts) -> Array:
    return _log_factorial(of) - _log_factorial(taken) - _log_factorial(of - taken)


def _log_factorial(of: Counts) -> Array:
    small = _small_log_factorials()
    return small[of] if of.max() < len(small) else np.asarray(gammaln(of + 1.0))


@cache
def _small_log_factorials() -> Array:
    """A table: reading it is several times as fast as computing them, and most populations fit in."""
    return np.asarray(gammaln(np.arange(1 << 17) + 1.0))
