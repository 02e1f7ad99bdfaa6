"""Votes on a scale: labels in an order, such as ratings, and the error that a wrong one makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.numerics.small import TIE
from camvo.typing import Array
from camvo.votes.aggregation import Aggregation, Ballot
from camvo.votes.labels import LABEL_VOTE, label_posterior

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
