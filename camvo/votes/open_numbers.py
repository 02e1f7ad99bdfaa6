"""Unbounded numbers: the weighted median, and a tolerance that grows with the answer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from camvo.errors import InvalidParameterError
from camvo.numerics.laplace import expected_closeness
from camvo.votes.aggregation import Ballot
from camvo.votes.numbers import (
    LARGEST_MAGNITUDE,
    read_number,
    values_and_weights,
    weighted_median,
    write_number,
)


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
        values, weights = values_and_weights(ballot, self.parse)
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
