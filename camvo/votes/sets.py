"""Subsets of labels: each label is a separate yes/no vote."""

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
    """Any number of labels; a vote is a JSON array of the chosen labels.

    A label is in the answer if more than half of the weight chose it. The reward is the share of labels on
    which vote and answer agree, chosen or not. An arm is right if it judges a random label as the truth
    does. If more than half of the weight does, so does the answer. δ_A therefore bounds the expected reward,
    as for rankings (:mod:`camvo.votes.aggregation`); for Jaccard's index it would not.

    Attributes:
        size: M ≥ 1, the number of labels.

    >>> from camvo.votes.aggregation import Ballot
    >>> votes = {"a": '["x"]', "b": '["x", "y"]', "c": '["y", "z"]'}
    >>> equal = dict.fromkeys(votes, 1.0)
    >>> ballot = Ballot(votes, equal, equal, dict.fromkeys(votes, 0.8))
    >>> answer, scores = SubsetVote(size=3).aggregate(ballot, ("x", "y", "z"))
    >>> answer, round(scores[answer], 2)
    ('["x","y"]', 0.8)
    """

    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InvalidParameterError(f"size must be at least 1, got {self.size}")

    def guess(self, options: Sequence[str]) -> float:
        """½: a random vote judges half of the labels rightly."""
        self._check_size(options)
        return 0.5

    def aggregate(self, ballot: Ballot, options: Sequence[str]) -> tuple[str, Mapping[str, float]]:
        """The labels that won their vote, and the expected share of labels that are judged rightly.

        Raises:
            InvalidParameterError: there is no vote, or a vote names a label that is not an option.
        """
        self._check_size(options)
        chosen = {arm: set(read_subset(vote)) for arm, vote in ballot.votes.items()}
        for arm, labels in chosen.items():
            if not labels <= set(options):
                raise InvalidParameterError(f"the vote of {arm!r} is outside the label set")
        backers = [tuple(arm for arm, labels in chosen.items() if option in labels) for option in options]
        outcomes = {arms: _decide_label(arms, ballot) for arms in set(backers)}
        answer = [option for option, arms in zip(options, backers, strict=True) if outcomes[arms][0]]
        text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
        return text, {text: math.fsum(outcomes[arms][1] for arms in backers) / self.size}

    def reward(self, vote: str, answer: str) -> float:
        """1 − |vote △ answer| / M."""
        return 1.0 - len(set(read_subset(vote)) ^ set(read_subset(answer))) / self.size

    def _check_size(self, options: Sequence[str]) -> None:
        if len(options) != self.size:
            raise InvalidParameterError(f"{len(options)} labels where {self.size} were expected")


def _decide_label(backers: Sequence[str], ballot: Ballot) -> tuple[bool, float]:
    """Whether a label chosen by ``backers`` is in the answer, and the probability that this is right."""
    votes = {arm: _YES if arm in backers else _NO for arm in ballot.votes}
    won = weighted_vote(votes, ballot.weights, (_NO, _YES), ballot.tie_breakers)
    return won == _YES, label_posterior(votes, ballot.correctness, (_NO, _YES))[won]


def read_subset(vote: str) -> list[str]:
    """Read the labels of a vote, in the order in which it names them.

    Raises:
        InvalidParameterError: the vote is not a JSON array of strings.
    """
    try:
        labels = json.loads(vote)
    except (ValueError, RecursionError) as error:
        raise InvalidParameterError("a subset is not a JSON array") from error
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise InvalidParameterError("a subset is not a JSON array of labels")
    return labels
