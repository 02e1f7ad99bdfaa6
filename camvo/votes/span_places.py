"""Grouping of the arms' spans into places of a text: spans that mean the same stretch."""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

import numpy as np

from camvo.numerics.tolerances import TIE
from camvo.votes.spans import Span, SpanColumns, span_overlap

SAME_PLACE_OVERLAP = 0.5
"""Two spans mean the same place if their intersection over union exceeds this."""

Place: TypeAlias = Mapping[str, Span]
"""The spans that mean the same stretch of text: arm → its span."""


@dataclass(frozen=True, slots=True)
class Electorate:
    """The arms that voted.

    Attributes:
        weights: arm → ω ≥ 0, not all 0.
        tie_breakers: arm → L.
    """

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


def group_into_places(
    cast: Mapping[str, Sequence[Span]], electorate: Electorate
) -> tuple[Mapping[Span, Place], Sequence[Place]]:
    """Group the spans of all arms into places.

    A span of a losing place joins a winning place with the same meaning, if its arm has no span there yet.
    It does not move the boundaries, but it counts as the arm's vote for the place.

    Args:
        cast: arm → its spans.
        electorate: the weights of the arms.

    Returns:
        The places that a majority marked, by their span, and all other places.
    """
    winners: dict[Span, dict[str, Span]] = {}
    losers: list[Place] = []
    for place in _disjoint_places(cast, electorate):
        if electorate.carries(place):
            winners[electorate.boundaries(place)] = dict(place)
        else:
            losers.append(place)
    others: list[Place] = []
    centres = tuple(winners)
    columns = SpanColumns(centres)
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


def _join_winner(arm: str, span: Span, winners: Mapping[Span, dict[str, Span]], near: Sequence[Span]) -> bool:
    """Add a span to the closest of these winners without a span of this arm; whether there is one."""
    open_places = [centre for centre in near if arm not in winners[centre]]
    if open_places:
        winners[max(open_places, key=lambda centre: span_overlap(span, centre))][arm] = span
    return bool(open_places)


def _disjoint_places(cast: Mapping[str, Sequence[Span]], electorate: Electorate) -> Iterator[Place]:
    """Yield places so that every span of every arm is in exactly one, the clearest places first.

    Spans that a majority marked identically come first. After them, the place around the span with the best
    :meth:`Electorate.standing` is taken repeatedly, until no span is left. It holds the span of each arm that
    is closest to that span. The standing prefers, in this order: more weight, a larger overlap, larger
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
