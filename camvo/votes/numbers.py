"""Bounded numbers: the weighted median or mean, and a reward for closeness (the paper's conclusion)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from camvo.errors import InvalidParameterError
from camvo.numerics.laplace import expected_closeness
from camvo.numerics.small import TIE
from camvo.votes.aggregation import Ballot

LARGEST_MAGNITUDE = 1e15
"""The largest magnitude of a number; well below 2⁵³, up to which floats represent every whole number."""

_NumericRule: TypeAlias = Literal["median", "mean"]


def weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """Σωy / Σω of values y, shape (n,), with weights ω ≥ 0, shape (n,), not all 0."""
    products = (weight * value for weight, value in zip(weights, values, strict=True))
    return math.fsum(products) / math.fsum(weights)


def weighted_median(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return the value with at most half of the weight on either side.

    If the weight splits in half between two values (within 1e-12), the result is their midpoint, as for the
    median of an even number of values.

    Args:
        values: shape (n,).
        weights: ω ≥ 0, shape (n,), not all 0.

    >>> weighted_median([1.0, 2.0, 9.0], [1.0, 1.0, 3.0]), weighted_median([1.0, 4.0], [2.0, 2.0])
    (9.0, 2.5)
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
        """The median or mean, and its :func:`camvo.numerics.laplace.expected_closeness` to the truth."""
        values, weights = _values_and_weights(ballot, self._parse)
        centre = weighted_median if self.rule == "median" else weighted_mean
        answer = self._rounded(centre(values, weights))
        score = expected_closeness(
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
            raise InvalidParameterError("a vote is outside the range")
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
        """The median, and its :func:`camvo.numerics.laplace.expected_closeness` to the truth.

        The truth is assumed to lie at most one scale below the smallest vote or above the largest.
        """
        values, weights = _values_and_weights(ballot, self.parse)
        answer = self._rounded(weighted_median(values, weights))
        scale = self._scale(answer)
        score = expected_closeness(
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
