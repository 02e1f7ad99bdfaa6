"""The expected closeness of a number to the truth, given independent votes.

This is the one-coin model of :func:`camvo.votes.labels.label_posterior` for numbers. The prior is uniform
over the range. An arm's error has a Laplace distribution whose spread matches the arm's expected closeness.
The posterior density is then piecewise exponential, so its integrals have a closed form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import brentq

from camvo.numerics.small import EPSILON
from camvo.typing import Array

_LARGEST = 1e150
"""Numbers above this are divided by the largest, so that differences and products do not overflow."""

_SERIES_LIMIT = 1e-3
"""Below this exponent the closed form cancels; four terms of the series are exact to 1e-13."""


def expected_closeness(
    answer: float,
    votes: Sequence[float],
    correctness: Sequence[float],
    *,
    low: float,
    high: float,
    scale: float,
) -> float:
    """Compute E[max(0, 1 − |y − answer| / scale)] over the truth y, given the votes.

    Args:
        answer: the value to judge, in [low, high], in the votes' unit.
        votes: one value per arm, in [low, high].
        correctness: the expected closeness of each arm, in the order of the votes, clipped to [ε, 1 − ε].
        low: the smallest possible value.
        high: the largest possible value.
        scale: the error at which closeness reaches 0, > 0.

    Returns:
        The expected closeness, in [0, 1].

    >>> round(expected_closeness(0.5, [0.5, 0.5], [0.9, 0.9], low=0, high=1, scale=1), 3)
    0.95
    """
    unit = max(abs(low), abs(high))
    if unit > _LARGEST:
        low, high, answer, scale = low / unit, high / unit, answer / unit, scale / unit
        votes = [vote / unit for vote in votes]
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
    """The spread x = b/scale of a Laplace error with mean closeness p: x(1 − e^(−1/x)) = 1 − p."""
    shortfall = 1.0 - min(max(correctness, EPSILON), 1.0 - EPSILON)
    return float(
        brentq(
            lambda x: -x * math.expm1(-1.0 / x) - shortfall, 0.5 * shortfall, 1.0 + 0.5 / (1.0 - shortfall)
        )
    )


def _moments(exponent: Array) -> tuple[Array, Array]:
    """∫e^(ku) du and ∫u·e^(ku) du over [0, 1] for each exponent k ≤ 0."""
    small = exponent > -_SERIES_LIMIT
    k = np.where(small, -1.0, exponent)
    level = np.where(small, 1.0 + exponent / 2.0 + exponent**2 / 6.0 + exponent**3 / 24.0, np.expm1(k) / k)
    slope = np.where(
        small,
        0.5 + exponent / 3.0 + exponent**2 / 8.0 + exponent**3 / 30.0,
        (np.exp(k) * (k - 1.0) + 1.0) / k**2,
    )
    return level, slope
