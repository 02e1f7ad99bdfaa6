"""Small tools: categories in contexts, ties, bounds of a probability, and the weighted median."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
from scipy.special import betaincinv

from camvo.errors import InvalidParameterError
from camvo.typing import Array


def _category_vector(category: str, dimension: int) -> Array:
    """The unit vector of a category: ±1/√d by the bits of its SHAKE-256 hash, shape (d,).

    Vectors of different categories are nearly orthogonal: their inner product is 0 with a standard deviation
    of 1/√d. A new category therefore needs no new coordinate, as it would as one-hot.
    """
    stream = hashlib.shake_256(category.encode("utf-8", "surrogatepass")).digest((dimension + 7) // 8)
    bits = np.unpackbits(np.frombuffer(stream, dtype=np.uint8))[:dimension]
    return np.asarray((2.0 * bits - 1.0) / np.sqrt(dimension), dtype=np.float64)


def with_category(embedding: Array, category: str) -> Array:
    """A unit vector with an embedding, shape (d,), and a category in equal parts; as it is if that is blank.

    It is rounded to float32, in which the ledger stores contexts.
    """
    if not category.strip():
        return embedding
    both = embedding + _category_vector(category.strip(), len(embedding))
    length = float(np.linalg.norm(both))
    return np.asarray(both / length if length > 0.0 else both).astype(np.float32).astype(np.float64)


TIE = 1e-12
"""Weight sums that differ by less than this are tied, and a confidence within this of δ reaches δ: rounding
must not decide a vote."""

EPSILON = 1e-6
"""The paper's ε: the smallest variance, and the smallest distance of a probability from 0 and 1."""


def within(values: Array, lowest: float, highest: float) -> Array:
    """NumPy's ``clip`` of small arrays, in a third of its time."""
    return np.asarray(np.minimum(np.maximum(values, lowest), highest), dtype=np.float64)


def upper_bound(successes: Array | float, trials: Array | float, level: float) -> Array:
    """The one-sided upper Clopper–Pearson bound of a proportion, in the shape of the arguments.

    With probability at least ``level`` the true proportion does not exceed the bound. Successes need not be
    whole. The bound is 1 for 0 trials.
    """
    bound: Array = betaincinv(np.add(successes, 1.0), np.maximum(np.subtract(trials, successes), TIE), level)
    return bound


def clopper_pearson(successes: float, trials: float, level: float = 0.95) -> tuple[float, float]:
    """Compute the two-sided Clopper–Pearson interval of a proportion.

    The interval holds the true proportion with probability at least ``level``. Successes need not be whole: a
    sum of rewards in [0, 1] varies less than as many Bernoulli trials with the same mean. For 0 trials the
    interval is [0, 1].

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


@lru_cache(maxsize=16)
def unknown_context(dimension: int) -> Array:
    """The context of a task whose text is not embedded, shape (d,), read-only."""
    context = np.zeros(dimension)
    context.setflags(write=False)  # all callers share it
    return context


def is_known(context: Array) -> bool:
    """Whether a context, shape (d,), comes from an embedding.

    >>> is_known(unknown_context(3)), is_known(np.array([1.0, 0.0, 0.0]))
    (False, True)
    """
    return bool(context.any())


def weighted_median(values: Array, weights: Array) -> float:
    """The weighted median of values, shape (n,), the lower one of two; 0 without values."""
    order = np.argsort(values)
    below = weights[order].cumsum()
    return float(values[order][below >= below[-1] / 2.0][0]) if len(values) else 0.0
