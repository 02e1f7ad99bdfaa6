"""Which spans of different arms mean the same place of a text."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

from camvo.numerics.tolerances import TIE
from camvo.votes.spans import Span, span_overlap

SAME_PLACE_OVERLAP = 0.5
"""Two spans mean the same place if they have more than this in common (intersection over union)."""

Place: TypeAlias = Mapping[str, Span]
"""The spans that mean the same: arm → its span."""


@dataclass(frozen=True, slots=True)
class Electorate:
    """The arms that voted: their weights, not all 0, and their tie-breakers."""

    weights: Mapping[str, float]
    tie_breakers: Mapping[str, float]

    def carries(self, arms: Collection[str]) -> bool:
        """Whether these are a majority; two majorities always have an arm in common."""
        lead = _lead(self.weights, arms)
        return lead > TIE or (lead >= -TIE and _lead(self.tie_breakers, arms) > TIE)

    def boundaries(self, place: Place) -> Span:
        """The span of a place: both its ends are weighted medians, the smaller where the weight is level.

        The members overlap one of them by more than half, so all hold its middle: the start comes first.
        """
        members = [(span, self.weights[arm]) for arm, span in place.items()]
        return Span(
            _median((span.start, weight) for span, weight in members),
            _median((span.end, weight) for span, weight in members),
            members[0][0].label,
        )

    def closeness(self, place: Place, span: Span) -> float:
        """The weighted mean of the members' overlap with the span of their place."""
        weight = math.fsum(self.weights[arm] for arm in place)
        return math.fsum(self.weights[arm] * span_overlap(span, own) for arm, own in place.items()) / weight

    def standing(self, candidate: Span, place: Place) -> tuple[float, ...]:
        """How clear a place around a candidate is, compared from the first number to the last."""
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
    """The places that a majority marked, under their spans, and the others.

    A span of the others that means the same as one that stays joins its place, if its arm has none there: it
    no longer moves the boundaries, but its arm did see the place.
    """
    stay: dict[Span, dict[str, Span]] = {}
    minor: list[Place] = []
    for place in _gathered(cast, electorate):
        if electorate.carries(place):
            stay[electorate.boundaries(place)] = dict(place)
        else:
            minor.append(place)
    others: list[Place] = []
    for place in minor:
        left = {arm: span for arm, span in place.items() if not _joins(arm, span, stay)}
        if left:
            others.append(left)
    return stay, others


def _joins(arm: str, span: Span, stay: Mapping[Span, dict[str, Span]]) -> bool:
    """Let a span join the nearest place that has room for it; says whether there is one."""
    open_ = [
        centre
        for centre, place in stay.items()
        if arm not in place and span_overlap(span, centre) > SAME_PLACE_OVERLAP
    ]
    if open_:
        stay[max(open_, key=lambda centre: span_overlap(span, centre))][arm] = span
    return bool(open_)


def _gathered(cast: Mapping[str, Sequence[Span]], electorate: Electorate) -> Iterator[Place]:
    """Every span of every arm in exactly one place, the clearest places first.

    First every span that a majority marked exactly alike. Then, again and again, the span with the best
    ``standing`` together with each arm's nearest one: that which the most weight came near to; among those
    the closest to theirs, the one with the larger sum of tie-breakers, the earlier one.
    """
    free = {arm: set(spans) for arm, spans in cast.items()}
    near = _neighbours({span for spans in cast.values() for span in spans})
    for span in near:
        exact = {arm: span for arm, spans in free.items() if span in spans}
        if electorate.carries(exact):
            yield _take(exact, free)
    found = {span: _around(near[span], free) for span in near if _is_free(span, free)}
    standings = {span: electorate.standing(span, place) for span, place in found.items()}
    while standings:
        place = found[max(standings, key=standings.__getitem__)]
        yield _take(place, free)
        for span in {other for taken in place.values() for other in near[taken]} & standings.keys():
            if _is_free(span, free):
                found[span] = _around(near[span], free)
                standings[span] = electorate.standing(span, found[span])
            else:
                del standings[span]


def _neighbours(spans: Collection[Span]) -> dict[Span, list[Span]]:
    """Each span → those that mean the same place, itself among them; the closest first, then the earlier."""
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
        span: sorted(found, key=lambda one: (-span_overlap(span, one), one)) for span, found in near.items()
    }


def _around(near: Sequence[Span], free: Mapping[str, set[Span]]) -> Place:
    """Each arm's nearest span that is in no place yet."""
    closest = {arm: next((one for one in near if one in spans), None) for arm, spans in free.items()}
    return {arm: one for arm, one in closest.items() if one is not None}


def _is_free(span: Span, free: Mapping[str, set[Span]]) -> bool:
    return any(span in spans for spans in free.values())


def _take(place: Place, free: Mapping[str, set[Span]]) -> Place:
    for arm, span in place.items():
        free[arm].remove(span)
    return place


def _median(weighted: Iterator[tuple[int, float]]) -> int:
    """The smallest value that, with those below it, has half of the weight."""
    ordered = sorted(weighted)
    half = math.fsum(weight for _, weight in ordered) / 2.0
    sums = accumulate(weight for _, weight in ordered)
    return next(value for (value, _), reached in zip(ordered, sums, strict=True) if reached >= half - TIE)


def _lead(column: Mapping[str, float], arms: Collection[str]) -> float:
    """By how much these arms outweigh the others."""
    return math.fsum(value if arm in arms else -value for arm, value in column.items())
