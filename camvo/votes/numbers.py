"""Bounded numbers: the weighted median or mean, and a reward for closeness (the paper's conclusion)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from scipy.optimize import brentq

from camvo.errors import InvalidParameterError
from camvo.numerics.small import EPSILON, TIE
from camvo.typing import Array
from camvo.votes.aggregation import Ballot

LARGEST_MAGNITUDE = 1e15
"""The largest magnitude of a number; well below 2⁵³, up to which floats represent every whole number."""

_NumericRule: TypeAlias = Literal["median", "mean"]


def _weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """Σωy / Σω of values y, shape (n,), with weights ω ≥ 0, shape (n,), not all 0."""
    products = (weight * value for weight, value in zip(weights, values, strict=True))
    return math.fsum(products) / math.fsum(weights)


def _weighted_median(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return the value with at most half of the weight on either side.

    If the weight splits in half between two values (within 1e-12), the result is their midpoint, as for the
    median of an even number of values.
    """
    weighted = sorted((value, weight) for value, weight in zip(values, weights, strict=True) if weight > 0.0)
    half, below = math.fsum(weight for _, weight in weighted) / 2.0, 0.0
    for position, (value, weight) in enumerate(weighted[:-1]):
        below += weight
        if below > half + TIE:
            return value
        if below >= half - TIE:
            return (value + weighted[position + 1][0]) / 2.0
    return weighted[-1][0]


_LARGEST = 1e150
"""Numbers above this are divided by the largest, so that differences and products do not overflow."""

_SERIES_LIMIT = 1e-3
"""Below this exponent the closed form cancels; four terms of the series are exact to 1e-13."""


def _expected_closeness(
    answer: float,
    votes: Sequence[float],
    correctness: Sequence[float],
    *,
    low: float,
    high: float,
    scale: float,
) -> float:
    """E[max(0, 1 − |y − answer| / scale)] over the truth y in [low, high], given independent votes.

    This is the one-coin model of :func:`camvo.votes.labels.label_posterior` for numbers. The prior is uniform
    over the range. An arm's error has a Laplace distribution whose spread matches the arm's expected
    closeness, its ``correctness``. The posterior density is then piecewise exponential, so its integrals have
    a closed form.
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


@dataclass(frozen=True, slots=True)
class NumericVote:
    """Numbers between ``low`` and ``high``; a vote is a number in digits.

    The reward is 1 − |y − ŷ| / scale, at least 0. The scale is fixed in advance. A scale learnt from the
    votes would change with them, so a reward could not be recomputed when a human corrects the round. Set a
    smaller scale if the range is far wider than typical errors (a year, a price). Otherwise nearly every vote
    earns almost 1.

    Attributes:
        low: the smallest possible value, at least −1e15.
        high: the largest possible value, at most 1e15.
        rule: ``"median"`` (robust, and bounded by δ_A: :mod:`camvo.votes.aggregation`) or ``"mean"``.
        scale: the error, in the votes' unit, that earns 0, in (0, high − low]; ``None`` means high − low.
        step: answers are rounded to low + n·step, halves upwards; ``None`` means no rounding.

    >>> from camvo.votes.aggregation import Ballot
    >>> votes = {"a": "1", "b": "2", "c": "9"}
    >>> equal = dict.fromkeys(votes, 1.0)
    >>> ballot = Ballot(votes, equal, equal, dict.fromkeys(votes, 0.8))
    >>> answer, scores = NumericVote(low=0, high=10).aggregate(ballot, ())
    >>> answer, round(scores[answer], 2)
    ('2', 0.86)
    """

    low: float
    high: float
    rule: _NumericRule = "median"
    scale: float | None = None
    step: float | None = None

    def __post_init__(self) -> None:
        if not -LARGEST_MAGNITUDE <= self.low < self.high <= LARGEST_MAGNITUDE:
            raise InvalidParameterError(
                f"need low < high, both in ±{LARGEST_MAGNITUDE:g}, got {self.low} and {self.high}"
            )
        if self.rule not in ("median", "mean"):
            raise InvalidParameterError(f'rule is "median" or "mean", got {self.rule!r}')
        for name, value in (("scale", self.scale), ("step", self.step)):
            if value is not None and not 0.0 < value <= self.high - self.low:
                raise InvalidParameterError(f"{name} is in (0, high − low], got {value}")

    def guess(self, options: Sequence[str]) -> float:
        """The expected closeness of two independent uniform values; the options are ignored."""
        share = self._scale / (self.high - self.low)
        return share - share**2 / 3.0

    def aggregate(self, ballot: Ballot, options: Sequence[str]) -> tuple[str, Mapping[str, float]]:
        """The median or mean, and its expected closeness to the truth."""
        values, weights = _values_and_weights(ballot, self._parse)
        centre = _weighted_median if self.rule == "median" else _weighted_mean
        answer = self._rounded(centre(values, weights))
        score = _expected_closeness(
            answer,
            values,
            [ballot.correctness[arm] for arm in sorted(ballot.votes)],
            low=self.low,
            high=self.high,
            scale=self._scale,
        )
        text = write_number(answer)
        return text, {text: score}

    def reward(self, vote: str, answer: str) -> float:
        """1 − |vote − answer| / scale, at least 0."""
        return max(1.0 - abs(read_number(vote) - read_number(answer)) / self._scale, 0.0)

    @property
    def _scale(self) -> float:
        return self.high - self.low if self.scale is None else self.scale

    def _parse(self, vote: str) -> float:
        value = read_number(vote)
        if not self.low <= value <= self.high:
            raise InvalidParameterError(f"a vote is outside the range from {self.low:g} to {self.high:g}")
        return value

    def _rounded(self, value: float) -> float:
        value = min(max(value, self.low), self.high)
        if self.step is None:
            return value
        steps = math.floor((value - self.low) / self.step + 0.5)
        return self.low + min(steps, math.floor((self.high - self.low) / self.step + TIE)) * self.step


def _values_and_weights(ballot: Ballot, parse: Callable[[str], float]) -> tuple[list[float], list[float]]:
    """Read the values and weights of a ballot, in the alphabetical order of the arms."""
    if not ballot.votes:
        raise InvalidParameterError("there is no vote to count")
    arms = sorted(ballot.votes)
    values = [parse(ballot.votes[arm]) for arm in arms]
    for column in (ballot.weights, ballot.tie_breakers):
        weights = [column[arm] for arm in arms]
        if any(weight > 0.0 for weight in weights):
            return values, weights
    return values, [1.0] * len(values)


def write_number(value: float) -> str:
    """Write a number as a vote: 15 significant digits, no negative zero."""
    return f"{value + 0.0:.15g}"


def read_number(vote: str) -> float:
    """Read the number of a vote.

    Raises:
        InvalidParameterError: the vote is not a finite number.
    """
    try:
        value = float(vote)
    except ValueError as error:
        raise InvalidParameterError("a vote on a number is not a number") from error
    if not math.isfinite(value):
        raise InvalidParameterError("a vote on a number is not finite")
    return value


@dataclass(frozen=True, slots=True)
class OpenNumericVote:
    """Numbers that are not bounded on both sides; a vote is a number in digits.

    The reward is 1 − |y − ŷ| / scale(ŷ), at least 0, as for :class:`camvo.votes.numbers.NumericVote`. The
    scale is ``tolerance``, or else a tenth of the answer, but at least one step. For an answer of 100 a vote
    of 90 earns 0 and a vote of 95 earns ½; for a count of 3 only 3 itself earns anything. The scale depends
    on the answer alone, so that a reward can be recomputed when a human corrects the round.

    Attributes:
        low: the smallest possible value, or ``None``.
        high: the largest possible value, or ``None``.
        step: answers are rounded to low (or 0) + n·step. ``None`` means no rounding and a scale of at
            least 1.
        tolerance: the error, in the votes' unit, that earns 0 whatever the answer; ``None`` means a tenth of
            the answer.

    >>> from camvo.votes.aggregation import Ballot
    >>> votes = {"a": "98", "b": "100", "c": "700"}
    >>> equal = dict.fromkeys(votes, 1.0)
    >>> ballot = Ballot(votes, equal, equal, dict.fromkeys(votes, 0.8))
    >>> answer, scores = OpenNumericVote().aggregate(ballot, ())
    >>> answer, round(scores[answer], 2)
    ('100', 0.84)
    """

    low: float | None = None
    high: float | None = None
    step: float | None = None
    tolerance: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("step", self.step), ("tolerance", self.tolerance)):
            if value is not None and not 0.0 < value <= LARGEST_MAGNITUDE:
                raise InvalidParameterError(f"{name} is in (0, {LARGEST_MAGNITUDE:g}], got {value}")
        for name, value in (("low", self.low), ("high", self.high)):
            if value is not None and not abs(value) <= LARGEST_MAGNITUDE:
                raise InvalidParameterError(f"{name} is in ±{LARGEST_MAGNITUDE:g}, got {value}")
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise InvalidParameterError(f"need low < high, got {self.low} and {self.high}")

    def guess(self, options: Sequence[str]) -> float:
        """0: a random number is never close."""
        return 0.0

    def aggregate(self, ballot: Ballot, options: Sequence[str]) -> tuple[str, Mapping[str, float]]:
        """The median, and its expected closeness to the truth.

        The truth is assumed to lie at most one scale below the smallest vote or above the largest.
        """
        values, weights = _values_and_weights(ballot, self.parse)
        answer = self._rounded(_weighted_median(values, weights))
        scale = self._scale(answer)
        score = _expected_closeness(
            answer,
            values,
            [ballot.correctness[arm] for arm in sorted(ballot.votes)],
            low=self._bounded(min(*values, answer) - scale),
            high=self._bounded(max(*values, answer) + scale),
            scale=scale,
        )
        text = write_number(answer)
        return text, {text: score}

    def reward(self, vote: str, answer: str) -> float:
        """1 − |vote − answer| / scale(answer), at least 0."""
        right = read_number(answer)
        return max(1.0 - abs(read_number(vote) - right) / self._scale(right), 0.0)

    def parse(self, vote: str) -> float:
        """Read the number of a vote.

        Raises:
            InvalidParameterError: the vote is not a number, or is out of range.
        """
        value = read_number(vote)
        if self._bounded(value) != value or abs(value) > LARGEST_MAGNITUDE:
            raise InvalidParameterError("a vote is outside the range")
        return value

    def _scale(self, answer: float) -> float:
        if self.tolerance is not None:
            return self.tolerance
        return max(abs(answer) / 10.0, 1.0 if self.step is None else self.step)

    def _bounded(self, value: float) -> float:
        value = value if self.low is None else max(value, self.low)
        return value if self.high is None else min(value, self.high)

    def _rounded(self, value: float) -> float:
        if self.step is None:
            return value
        base = self.low or 0.0
        steps = math.floor((value - base) / self.step + 0.5)
        if self.high is not None:
            steps = min(steps, math.floor((self.high - base) / self.step + 1e-12))
        return base + steps * self.step
