"""Sets of labelled spans as votes: how they are written, and how similar two of them are."""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import linear_sum_assignment

from camvo.errors import InvalidParameterError
from camvo.numerics.small import TIE
from camvo.typing import Array
from camvo.votes.aggregation import Ballot
from camvo.votes.labels import label_posterior


class Span(NamedTuple):
    """A labelled stretch of a text from ``start`` to ``end`` (exclusive), in characters; 0 ≤ start < end."""

    start: int
    end: int
    label: str


def write_spans(spans: Iterable[Span]) -> str:
    """Write a set of spans as a vote: a sorted JSON array of ``[start, end, label]`` without duplicates.

    >>> write_spans([Span(7, 9, "b"), Span(0, 5, "a"), Span(7, 9, "b")])
    '[[0,5,"a"],[7,9,"b"]]'
    """
    return json.dumps(sorted(set(spans)), ensure_ascii=False, separators=(",", ":"))


def read_spans(vote: str) -> tuple[Span, ...]:
    """Read the spans of a vote, sorted. A vote may have no spans, and its JSON may have any form.

    Raises:
        InvalidParameterError: the vote is not a JSON array of ``[start, end, label]``.
    """
    try:
        entries = json.loads(vote)
        spans = [Span(*entry) for entry in entries]
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidParameterError("spans are not a JSON array of [start, end, label]") from error
    if not isinstance(entries, list) or not all(map(_is_valid, spans)):
        raise InvalidParameterError(
            "spans are not a JSON array of [start, end, label] with whole numbers 0 ≤ start < end"
        )
    return tuple(sorted(set(spans)))


def span_overlap(left: Span, right: Span) -> float:
    """Compute the intersection over union of two spans, in [0, 1]; 0 if their labels differ.

    Among spans that do not overlap each other, at most one overlaps a given span by more than ½.
    """
    shared = min(left.end, right.end) - max(left.start, right.start)
    if left.label != right.label or shared <= 0:
        return 0.0
    return shared / (max(left.end, right.end) - min(left.start, right.start))


class _SpanColumns:
    """Many spans as columns of numbers, to compare them all at once."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._starts = np.array([span.start for span in spans], dtype=np.float64)
        self._ends = np.array([span.end for span in spans], dtype=np.float64)
        self._codes: dict[str, int] = {}
        codes = [self._codes.setdefault(span.label, len(self._codes)) for span in spans]
        self._labels = np.array(codes, dtype=np.int64)

    def overlaps(self, span: Span) -> Array:
        """The :func:`span_overlap` of each of them with ``span``, shape (n,)."""
        shared = np.minimum(self._ends, span.end) - np.maximum(self._starts, span.start)
        shared[(self._labels != self._codes.get(span.label, -1)) | (shared < 0.0)] = 0.0
        shares: Array = shared / (np.maximum(self._ends, span.end) - np.minimum(self._starts, span.start))
        return shares


def _span_f1(left: Sequence[Span], right: Sequence[Span]) -> float:
    """Compute F₁ with partial credit between two sets of spans, in [0, 1].

    F₁ is 2 Σ overlap / (|left| + |right|), summed over the one-to-one matching of spans with the largest sum.
    It is symmetric, and 1 only for equal sets (two empty sets included). If spans either are equal or do not
    overlap, it is the usual exact-match F₁.
    """
    if not left and not right:
        return 1.0
    columns = _SpanColumns(right)
    overlaps = np.array([columns.overlaps(span) for span in left])
    if not overlaps.any():
        return 0.0
    matched = overlaps[linear_sum_assignment(overlaps, maximize=True)]
    return 2.0 * math.fsum(matched) / (len(left) + len(right))


def _is_valid(span: Span) -> bool:
    return (
        type(span.start) is type(span.end) is int and 0 <= span.start < span.end and type(span.label) is str
    )


SAME_PLACE_OVERLAP = 0.5
"""Two spans mean the same place if their intersection over union exceeds this."""

Place: TypeAlias = Mapping[str, Span]
"""The spans that mean the same stretch of text: arm → its span."""


@dataclass(frozen=True, slots=True)
class _Electorate:
    """The arms that voted."""

    weights: Mapping[str, float]
    tie_breakers: Mapping[str, float]

    def carries(self, arms: Collection[str]) -> bool:
        """Whether these arms are a majority. Two majorities always share an arm."""
        lead = _lead(self.weights, arms)
        return lead > TIE or (lead >= -TIE and _lead(self.tie_breakers, arms) > TIE)

    def boundaries(self, place: Place) -> Span:
        """The span of a place, from the weighted median of the starts to that of the ends.

        If the weight splits in half, the smaller value is taken. All members contain the middle of one of
        them, because they overlap it by more than half. So the start lies before the end.
        """
        members = [(span, self.weights[arm]) for arm, span in place.items()]
        return Span(
            _median((span.start, weight) for span, weight in members),
            _median((span.end, weight) for span, weight in members),
            members[0][0].label,
        )

    def closeness(self, place: Place, span: Span) -> float:
        """The weighted mean overlap of the members with the span of their place, in [0, 1]."""
        weight = math.fsum(self.weights[arm] for arm in place)
        return math.fsum(self.weights[arm] * span_overlap(span, own) for arm, own in place.items()) / weight

    def standing(self, candidate: Span, place: Place) -> tuple[float, ...]:
        """The rank of the place around a candidate; tuples are compared, and the largest is taken first."""
        return (
            math.fsum(self.weights[arm] for arm in place),
            math.fsum(self.weights[arm] * span_overlap(candidate, span) for arm, span in place.items()),
            math.fsum(self.tie_breakers[arm] for arm in place),
            -candidate.start,
            -candidate.end,
        )


def _group_into_places(
    cast: Mapping[str, Sequence[Span]], electorate: _Electorate
) -> tuple[Mapping[Span, Place], Sequence[Place]]:
    """Group the spans of all arms into places."""
    winners: dict[Span, dict[str, Span]] = {}
    losers: list[Place] = []
    for place in _disjoint_places(cast, electorate):
        if electorate.carries(place):
            winners[electorate.boundaries(place)] = dict(place)
        else:
            losers.append(place)
    others: list[Place] = []
    centres = tuple(winners)
    columns = _SpanColumns(centres)
    for place in losers:
        remaining = {}
        for arm, span in place.items():
            overlaps = columns.overlaps(span)
            near = [centres[at] for at in np.flatnonzero(overlaps > SAME_PLACE_OVERLAP).tolist()]
            if not _join_winner(arm, span, winners, near):
                remaining[arm] = span
        if remaining:
            others.append(remaining)
    return winners, others


def marked_places(votes: Mapping[str, str], first: str | None = None) -> tuple[Place, ...]:
    """The places that the voters marked, every voter counting the same.

    Args:
        votes: voter → its vote.
        first: a voter whose spans are places as they are, whatever the others say.

    Raises:
        InvalidParameterError: a vote is not a JSON array of ``[start, end, label]``.
    """
    return _marked_places(tuple(sorted(votes.items())), first)


@lru_cache(maxsize=64)
def _marked_places(votes: tuple[tuple[str, str], ...], first: str | None) -> tuple[Place, ...]:
    """See :func:`marked_places`. Plans, decisions and lessons ask for the places of the same votes."""
    cast = {voter: read_spans(vote) for voter, vote in votes}
    weights = {voter: len(cast) + 1.0 if voter == first else 1.0 for voter in cast}
    winners, others = _group_into_places(cast, _Electorate(weights, weights))
    return (*winners.values(), *others)


def answer_by_chances(
    places: Sequence[Place], chances: Sequence[float], weights: Mapping[str, float], elsewhere: float
) -> tuple[str, float]:
    """The spans at the places that are more likely real than not, and their expected F₁.

    Args:
        places: the places that were marked.
        chances: the probability of each that the truth has a span there.
        weights: voter → the positive weight of its boundaries.
        elsewhere: how many spans the truth is expected to have where nobody marked one.
    """
    electorate = _Electorate(weights, weights)
    by_chance = sorted(zip(chances, places, strict=True), key=lambda pair: -pair[0])
    spans = {electorate.boundaries(place): (chance, place) for chance, place in by_chance if chance > 0.5}
    closeness = [electorate.closeness(place, span) for span, (_, place) in spans.items()]
    known = [chance for chance, _ in spans.values()] + [chance for chance in chances if chance <= 0.5]
    # Places that nobody marked: a number of small chances with this sum, close to a Poisson number of spans.
    missed = [elsewhere / _UNMARKED] * _UNMARKED if elsewhere < _UNMARKED else [1.0] * round(elsewhere)
    return write_spans(spans), _expected_f1(np.array(closeness), np.array([*known, *missed]))


_UNMARKED = 8


def _join_winner(arm: str, span: Span, winners: Mapping[Span, dict[str, Span]], near: Sequence[Span]) -> bool:
    """Add a span to the closest of these winners without a span of this arm; whether there is one."""
    open_places = [centre for centre in near if arm not in winners[centre]]
    if open_places:
        winners[max(open_places, key=lambda centre: span_overlap(span, centre))][arm] = span
    return bool(open_places)


def _disjoint_places(cast: Mapping[str, Sequence[Span]], electorate: _Electorate) -> Iterator[Place]:
    """Yield places so that every span of every arm is in exactly one, the clearest places first.

    Spans that a majority marked identically come first. After them, the place around the span with the best
    :meth:`_Electorate.standing` is taken repeatedly, until no span is left. It holds the span of each arm
    that is closest to that span. The standing prefers, in this order: more weight, a larger overlap, larger
    tie-breakers, an earlier span.
    """
    free = {arm: set(spans) for arm, spans in cast.items()}
    near = _neighbours({span for spans in cast.values() for span in spans})
    for span in near:
        exact = {arm: span for arm, spans in free.items() if span in spans}
        if electorate.carries(exact):
            yield _take(exact, free)
    around = {span: _closest_free(near[span], free) for span in near if _is_free(span, free)}
    standings = {span: electorate.standing(span, place) for span, place in around.items()}
    queue = [(_descending(standing), span) for span, standing in standings.items()]
    heapq.heapify(queue)
    while queue:
        key, best = heapq.heappop(queue)
        if best not in standings or _descending(standings[best]) != key:
            continue  # an entry from before a neighbour was taken
        place = around[best]
        yield _take(place, free)
        for span in {other for taken in place.values() for other in near[taken]} & standings.keys():
            if _is_free(span, free):
                around[span] = _closest_free(near[span], free)
                standings[span] = electorate.standing(span, around[span])
                heapq.heappush(queue, (_descending(standings[span]), span))
            else:
                del standings[span]


def _descending(standing: tuple[float, ...]) -> tuple[float, ...]:
    return tuple([-value for value in standing])


def _neighbours(spans: Collection[Span]) -> dict[Span, list[Span]]:
    """Each span → the spans that mean the same place, itself included, sorted by overlap and position."""
    ordered = sorted(spans)
    near = {span: [span] for span in ordered}
    for position, span in enumerate(ordered):
        for other in ordered[position + 1 :]:
            if other.start >= span.end:
                break
            if span_overlap(span, other) > SAME_PLACE_OVERLAP:
                near[span].append(other)
                near[other].append(span)
    return {
        span: sorted(alike, key=lambda other: (-span_overlap(span, other), other))
        for span, alike in near.items()
    }


def _closest_free(near: Sequence[Span], free: Mapping[str, set[Span]]) -> Place:
    """The first span of ``near`` that each arm marked and that is in no place yet."""
    closest = {arm: next((span for span in near if span in spans), None) for arm, spans in free.items()}
    return {arm: span for arm, span in closest.items() if span is not None}


def _is_free(span: Span, free: Mapping[str, set[Span]]) -> bool:
    """Whether an arm marked the span and it is in no place yet."""
    return any(span in spans for spans in free.values())


def _take(place: Place, free: Mapping[str, set[Span]]) -> Place:
    """Remove the spans of a place from the free ones."""
    for arm, span in place.items():
        free[arm].remove(span)
    return place


def _median(weighted: Iterator[tuple[int, float]]) -> int:
    """The smallest value such that it and the values below it have half of the weight."""
    ordered = sorted(weighted)
    half = math.fsum(weight for _, weight in ordered) / 2.0
    sums = accumulate(weight for _, weight in ordered)
    return next(value for (value, _), reached in zip(ordered, sums, strict=True) if reached >= half - TIE)


def _lead(column: Mapping[str, float], arms: Collection[str]) -> float:
    """The weight of these arms minus the weight of the others."""
    return math.fsum(value if arm in arms else -value for arm, value in column.items())


_NOTHING = "\0nothing"
"""The vote of an arm on a place that it did not mark."""

_MAX_NODES = 64
"""The most quadrature nodes for the expected F₁: exact up to 128 places, winning places counted twice."""


@dataclass(frozen=True, slots=True)
class SpanVote:
    """Sets of labelled spans; a vote is a JSON array of ``[start, end, label]``, with an exclusive end.

    The arms' spans of one label that overlap well form one place (:mod:`camvo.votes.spans`). Each
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
        """The winning spans, and their expected F₁ (:func:`camvo.votes.spans._span_f1`).

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
        electorate = _Electorate(_voting_weights(ballot), {arm: ballot.tie_breakers[arm] for arm in cast})
        winners, others = _group_into_places(cast, electorate)
        closeness = [electorate.closeness(place, span) for span, place in winners.items()]
        chances = [_place_probability(place, ballot, options) for place in [*winners.values(), *others, {}]]
        answer = write_spans(winners)
        return answer, {answer: _expected_f1(np.array(closeness), np.array(chances))}

    def reward(self, vote: str, answer: str) -> float:
        """The :func:`camvo.votes.spans._span_f1` of vote and answer."""
        return _span_f1(read_spans(vote), read_spans(answer))


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
