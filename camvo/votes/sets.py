"""Subsets: each label is a yes/no vote of its own, and a vote is as right as it is on a random label."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from camvo.errors import InvalidParameterError
from camvo.votes.aggregation import Ballot
from camvo.votes.labels import label_posterior, weighted_vote

_YES, _NO = "yes", "no"


@dataclass(frozen=True, slots=True)
class SubsetVote:
    """Any number of labels; the text of a vote is a JSON array of those that were chosen.

    A label is in the answer if more than half of the weight chose it. The reward is the share of labels that
    were judged alike, chosen or not: an arm is right if it judges a random label as the truth does. Wherever
    more than half of the weight does, so does the answer, so that δ_A bounds the expected reward as it does
    for rankings (:mod:`camvo.votes.aggregation`). Jaccard's index has no such reading.

    Attributes:
        size: the number of labels, M ≥ 1.
    """

    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InvalidParameterError(f"a subset is of at least one label, got {self.size}")

    def guess(self, options: Sequence[str]) -> float:
        """½: a coin for each label."""
        self._check(options)
        return 0.5

    def aggregate(self, ballot: Ballot, options: Sequence[str]) -> tuple[str, Mapping[str, float]]:
        """The labels that won their vote, and the share of labels that is expected to be judged rightly.

        Raises:
            InvalidParameterError: there is no vote, or one that names something else than the options.
        """
        self._check(options)
        chosen = {arm: set(read_subset(vote)) for arm, vote in ballot.votes.items()}
        for arm, labels in chosen.items():
            if not labels <= set(options):
                raise InvalidParameterError(f"the vote of {arm!r} is outside the label set")
        backers = [tuple(arm for arm, labels in chosen.items() if option in labels) for option in options]
        outcomes = {arms: _decided(arms, ballot) for arms in set(backers)}
        answer = [option for option, arms in zip(options, backers, strict=True) if outcomes[arms][0]]
        text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
        return text, {text: math.fsum(outcomes[arms][1] for arms in backers) / self.size}

    def reward(self, vote: str, answer: str) -> float:
        """1 − |vote △ answer| / M."""
        return 1.0 - len(set(read_subset(vote)) ^ set(read_subset(answer))) / self.size

    def _check(self, options: Sequence[str]) -> None:
        if len(options) != self.size:
            raise InvalidParameterError(f"{len(options)} labels where {self.size} were expected")


def _decided(backers: Sequence[str], ballot: Ballot) -> tuple[bool, float]:
    """Whether a label that these arms chose is in the answer, and the posterior of that."""
    votes = {arm: _YES if arm in backers else _NO for arm in ballot.votes}
    won = weighted_vote(votes, ballot.weights, (_NO, _YES), ballot.tie_breakers)
    return won == _YES, label_posterior(votes, ballot.correctness, (_NO, _YES))[won]


def read_subset(vote: str) -> list[str]:
    """The labels of a vote, in its order.

    Raises:
        InvalidParameterError: it is not a JSON array of strings.
    """
    try:
        labels = json.loads(vote)
    except (ValueError, RecursionError) as error:
        raise InvalidParameterError("a subset is not a JSON array") from error
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise InvalidParameterError("a subset is not a JSON array of labels")
    return labels
