"""Votes on labelled spans: which places win, where they begin and end, and the expected F₁."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.typing import Array
from camvo.votes.aggregation import Ballot
from camvo.votes.labels import label_posterior
from camvo.votes.span_places import Electorate, Place, group_into_places
from camvo.votes.spans import Span, read_spans, span_f1, write_spans

_NOTHING = "\0nothing"
"""The vote of an arm on a place that it did not mark."""

_MAX_NODES = 64
"""The most quadrature nodes for the expected F₁: exact up to 128 places, winning places counted twice."""


@dataclass(frozen=True, slots=True)
class SpanVote:
    """Sets of labelled spans; :func:`camvo.votes.spans.write_spans` describes how a vote is written.

    The arms' spans of one label that overlap well form one place (:mod:`camvo.votes.span_places`). Each
    place is voted on separately. It is in the answer if the arms that marked it carry

    - more than half of the weight of all voters, or
    - half of the weight and more than half of the tie-breakers.

    It begins at the weighted median of their starts and ends at the weighted median of their ends. Spans of
    different labels may overlap. A span that a majority marked identically is in the answer unchanged. If
    all weights are 0, the arms' L are the weights. If those are all 0 too, every weight is 1.

    >>> from camvo.votes.aggregation import Ballot
    >>> votes = {"a": '[[0,5,"city"]]', "b": '[[0,5,"city"]]', "c": "[]"}
    >>> equal = dict.fromkeys(votes, 1.0)
    >>> ballot = Ballot(votes, equal, equal, dict.fromkeys(votes, 0.8))
    >>> answer, scores = SpanVote().aggregate(ballot, ("city", "name"))
    >>> answer, round(scores[answer], 2)
    ('[[0,5,"city"]]', 0.88)
    """

    def guess(self, options: Sequence[str]) -> float:
        """1/(M + 1): a place has one of the M labels, or nothing."""
        if not options:
            raise InvalidParameterError("a question needs at least one label")
        return 1.0 / (len(options) + 1)

    def aggregate(self, ballot: Ballot, options: Sequence[str]) -> tuple[str, Mapping[str, float]]:
        """The winning spans, and their expected F₁ (:func:`camvo.votes.spans.span_f1`).

        Each place that an arm marked is a vote between the M labels and nothing. The truth has a span there
        with the :func:`.label_posterior` of that vote, independently of the other places. It may have one
        more span, where no arm marked anything. The answer's boundaries are assumed to be as far from the
        truth's as from the arms'.
        """
        if not ballot.votes:
            raise InvalidParameterError("there is no vote to count")
        cast = {
            arm: _check_labels(arm, read_spans(vote), options) for arm, vote in sorted(ballot.votes.items())
        }
        electorate = Electorate(_voting_weights(ballot), {arm: ballot.tie_breakers[arm] for arm in cast})
        winners, others = group_into_places(cast, electorate)
        closeness = [electorate.closeness(place, span) for span, place in winners.items()]
        chances = [_place_probability(place, ballot, options) for place in [*winners.values(), *others, {}]]
        answer = write_spans(winners)
        return answer, {answer: _expected_f1(np.array(closeness), np.array(chances))}

    def reward(self, vote: str, answer: str) -> float:
        """The :func:`camvo.votes.spans.span_f1` of vote and answer."""
        return span_f1(read_spans(vote), read_spans(answer))


def _check_labels(arm: str, spans: tuple[Span, ...], options: Sequence[str]) -> tuple[Span, ...]:
    if not {span.label for span in spans} <= set(options):
        raise InvalidParameterError(f"the vote of {arm!r} has a label outside the label set")
    return spans


def _voting_weights(ballot: Ballot) -> dict[str, float]:
    for column in (ballot.weights, ballot.tie_breakers):
        if any(column[arm] > 0.0 for arm in ballot.votes):
            return {arm: column[arm] for arm in ballot.votes}
    return dict.fromkeys(ballot.votes, 1.0)


def _place_probability(place: Place, ballot: Ballot, options: Sequence[str]) -> float:
    """The probability that the truth has the place's span, or any span if no arm marked the place."""
    answers = {arm: place[arm].label if arm in place else _NOTHING for arm in ballot.votes}
    chances = label_posterior(answers, ballot.correctness, [*options, _NOTHING])
    label = next((span.label for span in place.values()), None)
    return 1.0 - chances[_NOTHING] if label is None else chances[label]


def _expected_f1(closeness: Array, chances: Array) -> float:
    """Compute E[2 Σ closeness·X / (n + ΣX)]: the numerator sums over n winning places, ΣX over all m places.

    X is 1 if the truth has a span at the place, independently, with the place's probability. F₁ is 1 if
    neither side has a span. The expectation of 1/(n + T) is ∫₀¹ s^(n−1) E[s^T] ds, whose integrand is a
    polynomial in s, so Gauss–Legendre quadrature is exact.

    Args:
        closeness: of each winning place, shape (n,).
        chances: the probability of each place, winning places first, shape (m,).
    """
    n = len(closeness)
    if n == 0:
        return float(np.prod(1.0 - chances))
    nodes, weights = np.polynomial.legendre.leggauss(min((n + len(chances)) // 2 + 1, _MAX_NODES))
    s = (nodes + 1.0) / 2.0
    factors = 1.0 - chances[:, None] + chances[:, None] * s
    right = (2.0 * closeness * chances[:n])[:, None] / factors[:n]
    expected = weights @ (s**n * factors.prod(axis=0) * right.sum(axis=0)) / 2.0
    return float(min(max(expected, 0.0), 1.0))
