"""Votes for labels: the weighted vote with its tie-breaks, and the probability of each label."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from camvo.errors import InvalidParameterError
from camvo.numerics.small import EPSILON, TIE
from camvo.votes.aggregation import Ballot


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
