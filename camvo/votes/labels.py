"""Votes for labels: the weighted vote, each label's probability, and labels in an order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.numerics.small import EPSILON, TIE
from camvo.typing import Array
from camvo.votes.aggregation import Aggregation, Ballot


def weighted_vote(
    votes: Mapping[str, str],
    weights: Mapping[str, float],
    labels: Sequence[str],
    tie_breakers: Mapping[str, float],
) -> str:
    """Return the label with the largest sum of weights (Algorithm 1, line 13).

    Ties go to the label with the larger sum of ``tie_breakers`` (the arms' L), then to the label that comes
    first in ``labels``; they are never broken at random. Sums that differ by less than 1e-12 are tied.
    """
    _check_votes(votes, labels)
    candidates = list(dict.fromkeys(votes.values()))
    for values in (weights, tie_breakers):
        if len(candidates) == 1:
            break
        totals = {
            label: math.fsum([values[arm] for arm, vote in votes.items() if vote == label])
            for label in candidates
        }
        top = max(totals.values())
        candidates = [label for label in candidates if totals[label] >= top - TIE]
    return candidates[0] if len(candidates) == 1 else min(candidates, key=labels.index)


def label_posterior(
    votes: Mapping[str, str], correctness: Mapping[str, float], labels: Sequence[str]
) -> dict[str, float]:
    """Label → the probability that it is right, given the votes, under the one-coin model.

    A single label has probability 1. All M labels are equally likely a priori. An arm is right with
    probability ``correctness``, clipped to [ε, 1 − ε], and otherwise names one of the M − 1 other labels at
    random, independently of the other arms.

    Raises:
        InvalidParameterError: there is no vote, or a vote is outside the label set.

    >>> {label: round(p, 3) for label, p in label_posterior({"a": "yes"}, {"a": 0.8}, ["yes", "no"]).items()}
    {'yes': 0.8, 'no': 0.2}
    """
    _check_votes(votes, labels)
    if len(labels) == 1:
        return {labels[0]: 1.0}
    log_likelihood = dict.fromkeys(labels, 0.0)
    others = math.log(len(labels) - 1)
    for arm in sorted(votes):
        right = min(max(correctness[arm], EPSILON), 1.0 - EPSILON)
        log_likelihood[votes[arm]] += math.log(right) - math.log1p(-right) + others
    top = max(log_likelihood.values())
    unnormalised = [math.exp(value - top) for value in log_likelihood.values()]
    total = math.fsum(unnormalised)
    return {label: value / total for label, value in zip(labels, unnormalised, strict=True)}


def _check_votes(votes: Mapping[str, str], labels: Sequence[str]) -> None:
    if not votes:
        raise InvalidParameterError("there is no vote to count")
    for arm, vote in votes.items():
        if vote not in labels:
            raise InvalidParameterError(f"the vote of {arm!r} is outside the label set")


@dataclass(frozen=True, slots=True)
class LabelVote:
    """Labels: the weighted vote of Algorithm 1. A vote is right if it equals the answer.

    >>> from camvo.votes.aggregation import Ballot
    >>> votes = {"a": "yes", "b": "yes", "c": "no"}
    >>> equal = dict.fromkeys(votes, 1.0)
    >>> ballot = Ballot(votes, equal, equal, dict.fromkeys(votes, 0.8))
    >>> answer, scores = LabelVote().aggregate(ballot, ("no", "yes"))
    >>> answer, round(scores[answer], 2)
    ('yes', 0.8)
    """

    def guess(self, options: Sequence[str]) -> float:
        """1/M for M labels."""
        if not options:
            raise InvalidParameterError("a question needs at least one label")
        return 1.0 / len(options)

    def aggregate(self, ballot: Ballot, options: Sequence[str]) -> tuple[str, Mapping[str, float]]:
        """The :func:`weighted_vote` and the :func:`label_posterior` of every label."""
        label = weighted_vote(ballot.votes, ballot.weights, options, ballot.tie_breakers)
        return label, label_posterior(ballot.votes, ballot.correctness, options)

    def reward(self, vote: str, answer: str) -> float:
        """1 if the labels are equal, else 0 (Algorithm 1, line 16)."""
        return float(vote == answer)


LABEL_VOTE: Final = LabelVote()


ErrorName: TypeAlias = Literal["exact", "absolute", "quadratic"]
"""What an error is: any other label; the number of steps; their square."""

ERRORS: Final[tuple[ErrorName, ...]] = get_args(ErrorName)

MOST_STEPS: Final = 11
"""A scale has at most this many labels, as from 0 to 10; more are numbers."""


@dataclass(frozen=True, slots=True)
class OrderedVote:
    """Labels in an order; a vote is one of them.

    The reward is 1 − error, where the error is a share of the largest one. Without a model of the votes the
    answer is the weighted median.

    Attributes:
        scale: the labels from the lowest to the highest, from 3 to 11.
        error: what an answer should minimise: ``"exact"`` counts labels that are not right, ``"absolute"``
            the steps between the labels, ``"quadratic"`` their squares.

    >>> from camvo.votes.aggregation import Ballot
    >>> votes = {"a": "1", "b": "2", "c": "5"}
    >>> equal = dict.fromkeys(votes, 1.0)
    >>> ballot = Ballot(votes, equal, equal, dict.fromkeys(votes, 0.8))
    >>> stars = OrderedVote(("1", "2", "3", "4", "5"), "absolute")
    >>> stars.aggregate(ballot, stars.scale)[0], stars.reward("1", "3")
    ('2', 0.5)
    """

    scale: tuple[str, ...]
    error: ErrorName = "absolute"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", tuple(self.scale))  # JSON has lists
        if not 3 <= len(self.scale) <= MOST_STEPS or len(set(self.scale)) < len(self.scale):
            raise InvalidParameterError(f"a scale has from 3 to {MOST_STEPS} labels, each once")
        if self.error not in ERRORS:
            raise InvalidParameterError(f"error is one of {', '.join(ERRORS)}, got {self.error!r}")

    @property
    def losses(self) -> Array:
        """The error if the answer is the column's label and the row's is right, in steps, shape (M, M)."""
        labels = np.arange(len(self.scale))
        steps = np.abs(labels[:, None] - labels).astype(np.float64)
        by_name = {"exact": np.minimum(steps, 1.0), "absolute": steps, "quadratic": steps**2}
        return np.asarray(by_name[self.error], dtype=np.float64)

    @property
    def rewards(self) -> Array:
        """1 − error as a share of the largest one, shape (M, M)."""
        return np.asarray(1.0 - self.losses / self.losses.max(), dtype=np.float64)

    def guess(self, options: Sequence[str]) -> float:
        """The mean reward of a random vote."""
        return float(self.rewards.mean())

    def aggregate(self, ballot: Ballot, options: Sequence[str]) -> tuple[str, Mapping[str, float]]:
        """The weighted median, halfway between two (upwards), and the expected reward of every label."""
        posterior = label_posterior(ballot.votes, ballot.correctness, self.scale)
        rewards = np.array([posterior[label] for label in self.scale]) @ self.rewards
        weights = self._weights(ballot)
        below = weights.cumsum()
        half = below[-1] / 2.0
        low, high = int((below >= half - TIE).argmax()), int((below > half + TIE).argmax())
        return self.scale[(low + high + 1) // 2], dict(zip(self.scale, rewards.tolist(), strict=True))

    def reward(self, vote: str, answer: str) -> float:
        """1 − error as a share of the largest one."""
        return float(self.rewards[self.scale.index(answer), self.scale.index(vote)])

    def _weights(self, ballot: Ballot) -> Array:
        """The weight of each label, shape (M,)."""
        for column in (ballot.weights, ballot.tie_breakers, dict.fromkeys(ballot.votes, 1.0)):
            weights = np.zeros(len(self.scale))
            for arm in sorted(ballot.votes):
                weights[self.scale.index(ballot.votes[arm])] += column[arm]
            if weights.any():
                break
        return weights


def has_vote_model(aggregation: Aggregation) -> bool:
    """Whether votes are labels of a fixed set, ordered or not."""
    return aggregation == LABEL_VOTE or isinstance(aggregation, OrderedVote)
