"""Voting on labelled spans: which of them stay, where they begin and end, and what that is worth."""

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
"""What an arm says of a place that it did not mark."""

_NODES = 64
"""Most nodes of the quadrature behind the score: exact up to 128 places, those that stay counted twice."""


@dataclass(frozen=True, slots=True)
class SpanVote:
    """Sets of labelled spans; a vote is a text that :func:`camvo.votes.spans.read_spans` takes, or ``[]``.

    The arms' spans of one label that overlap well are one place (:mod:`camvo.votes.span_places`), and each
    place is voted on by itself: it is in the answer if the arms that marked it carry more than half of the
    weight of all that voted, or half of it and more than half of the tie-breakers. It begins at the weighted
    median of their starts and ends at that of their ends. Spans of different labels may overlap each other.

    A span that a majority marked exactly alike is in the answer as it is. Where every weight is 0 the arms' L
    weigh the votes, and where those are all 0 too, each counts the same.
    """

    def guess(self, options: Sequence[str]) -> float:
        """1/(M + 1): at any one place there is one of the M labels, or nothing."""
        if not options:
            raise InvalidParameterError("a question needs a label")
        return 1.0 / (len(options) + 1)

    def aggregate(self, ballot: Ballot, options: Sequence[str]) -> tuple[str, Mapping[str, float]]:
        """The spans that stay, and the F₁ (:func:`camvo.votes.spans.span_f1`) that they can expect.

        Each place that any arm marked is a vote between the M labels and nothing: the truth has a span there
        with the :func:`camvo.votes.labels.label_posterior` of that vote, independently of the other places. It may
        have one more, where all arms saw nothing. The boundaries are as far from the truth's as from the
        arms'.
        """
        if not ballot.votes:
            raise InvalidParameterError("there is no vote to count")
        cast = {arm: _known(arm, read_spans(vote), options) for arm, vote in sorted(ballot.votes.items())}
        electorate = Electorate(_weights(ballot), {arm: ballot.tie_breakers[arm] for arm in cast})
        stay, others = group_into_places(cast, electorate)
        closeness = [electorate.closeness(place, span) for span, place in stay.items()]
        chances = [_chance(place, ballot, options) for place in [*stay.values(), *others, {}]]
        answer = write_spans(stay)
        return answer, {answer: _expected_f1(np.array(closeness), np.array(chances))}

    def reward(self, vote: str, answer: str) -> float:
        """The :func:`camvo.votes.spans.span_f1` of the two."""
        return span_f1(read_spans(vote), read_spans(answer))


def _known(arm: str, spans: tuple[Span, ...], options: Sequence[str]) -> tuple[Span, ...]:
    if not {span.label for span in spans} <= set(options):
        raise InvalidParameterError(f"the vote of {arm!r} has a label outside the label set")
    return spans


def _weights(ballot: Ballot) -> dict[str, float]:
    for column in (ballot.weights, ballot.tie_breakers):
        if any(column[arm] > 0.0 for arm in ballot.votes):
            return {arm: column[arm] for arm in ballot.votes}
    return dict.fromkeys(ballot.votes, 1.0)


def _chance(place: Place, ballot: Ballot, options: Sequence[str]) -> float:
    """The probability that the truth has a span at a place; where no arm marked one, of whatever label."""
    answers = {arm: place[arm].label if arm in place else _NOTHING for arm in ballot.votes}
    chances = label_posterior(answers, ballot.correctness, [*options, _NOTHING])
    label = next((span.label for span in place.values()), None)
    return 1.0 - chances[_NOTHING] if label is None else chances[label]


def _expected_f1(closeness: Array, chances: Array) -> float:
    """E[2 Σ closeness·X / (n + ΣX)], the upper sum over the n places that stay and the lower over all.

    X is 1 where the truth has a span, independently, with its chance; with no span on either side F₁ is 1.
    The expectation of 1/(m + T) is ∫₀¹ s^(m−1) E[s^T] ds, and the integrand a polynomial in s.

    Args:
        closeness: of the n places that stay, shape (n,).
        chances: of all places, those that stay first, shape (m,).
    """
    n = len(closeness)
    if n == 0:
        return float(np.prod(1.0 - chances))
    nodes, weights = np.polynomial.legendre.leggauss(min((n + len(chances)) // 2 + 1, _NODES))
    s = (nodes + 1.0) / 2.0
    factors = 1.0 - chances[:, None] + chances[:, None] * s
    right = (2.0 * closeness * chances[:n])[:, None] / factors[:n]
    expected = weights @ (s**n * factors.prod(axis=0) * right.sum(axis=0)) / 2.0
    return float(min(max(expected, 0.0), 1.0))
