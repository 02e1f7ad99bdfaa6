"""How close to the truth can a number be expected to be, given independent votes about it?

The one-coin model of :func:`camvo.votes.labels.label_posterior`, for numbers: every value of the range is equally
likely beforehand, and an arm's error has a Laplace distribution whose spread gives the arm its expected
closeness. The posterior density is then piecewise exponential, and its integrals have a closed form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import brentq

from camvo.numerics.tolerances import EPSILON
from camvo.typing import Array

_SERIES = 1e-3
"""Below this exponent the closed form cancels, and four terms of the series are exact to 1e-13."""


def expected_closeness(
    answer: float,
    votes: Sequence[float],
    correctness: Sequence[float],
    *,
    low: float,
    high: float,
    scale: float,
) -> float:
    """E[max(0, 1 − |y − answer| / scale)] over the truth y, given the votes.

    Args:
        answer: the value that is judged, in [low, high].
        votes: the arms' values, in [low, high].
        correctness: each arm's expected closeness, clipped to [ε, 1 − ε].
        low: the least possible value.
        high: the greatest.
        scale: the error that is worth nothing.

    >>> round(expected_closeness(0.5, [0.5, 0.5], [0.9, 0.9], low=0, high=1, scale=1), 3)
    0.95
    """
    rates = np.array([1.0 / (scale * _spread(p)) for p in correctness])
    knots = np.unique(np.clip([low, high, answer - scale, answer, answer + scale, *votes], low, high))
    log_density = -np.abs(knots[:, None] - np.asarray(votes, dtype=np.float64)) @ rates
    density = np.exp(log_density - log_density.max())
    closeness = np.maximum(1.0 - np.abs(knots - answer) / scale, 0.0)
    falls = log_density[:-1] >= log_density[1:]
    higher = np.maximum(density[:-1], density[1:])
    near = np.where(falls, closeness[:-1], closeness[1:])
    far = np.where(falls, closeness[1:], closeness[:-1])
    level, slope = _moments(-np.abs(np.diff(log_density)))
    mass = np.diff(knots) * higher
    return float(min((mass * (near * level + (far - near) * slope)).sum() / (mass * level).sum(), 1.0))


def _spread(correctness: float) -> float:
    """The x = b/scale of a Laplace error whose mean closeness is ``correctness``: x(1 − e^(−1/x)) = 1 − p."""
    short = 1.0 - min(max(correctness, EPSILON), 1.0 - EPSILON)
    return float(brentq(lambda x: -x * math.expm1(-1.0 / x) - short, 0.5 * short, 1.0 + 0.5 / (1.0 - short)))


def _moments(exponent: Array) -> tuple[Array, Array]:
    """∫e^(ku) du and ∫u·e^(ku) du over [0, 1] for each exponent k ≤ 0."""
    small = exponent > -_SERIES
    k = np.where(small, -1.0, exponent)
    level = np.where(small, 1.0 + exponent / 2.0 + exponent**2 / 6.0 + exponent**3 / 24.0, np.expm1(k) / k)
    slope = np.where(
        small,
        0.5 + exponent / 3.0 + exponent**2 / 8.0 + exponent**3 / 30.0,
        (np.exp(k) * (k - 1.0) + 1.0) / k**2,
    )
    return level, slope
