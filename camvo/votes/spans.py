"""Sets of labelled spans as votes: how they are written, and how much two of them have in common."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from camvo.errors import InvalidParameterError


class Span(NamedTuple):
    """A stretch of a text, from ``start`` up to and without ``end``, under a label; 0 ≤ start < end."""

    start: int
    end: int
    label: str


def write_spans(spans: Iterable[Span]) -> str:
    """The vote for a set of spans: a JSON array of ``[start, end, label]``, sorted, none of them twice.

    >>> write_spans([Span(7, 9, "b"), Span(0, 5, "a"), Span(7, 9, "b")])
    '[[0,5,"a"],[7,9,"b"]]'
    """
    return json.dumps(sorted(set(spans)), ensure_ascii=False, separators=(",", ":"))


def read_spans(vote: str) -> tuple[Span, ...]:
    """The spans of a vote, sorted; none is a vote, too.

    Raises:
        InvalidParameterError: it is not what :func:`write_spans` makes of some set of spans.
    """
    try:
        spans = tuple(Span(*entry) for entry in json.loads(vote))
        sound = all(_is_sound(span) for span in spans) and write_spans(spans) == vote
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidParameterError("a vote on spans is no JSON array of [start, end, label]") from error
    if not sound:
        raise InvalidParameterError("a vote on spans is not in the one form that it has")
    return spans


def span_overlap(left: Span, right: Span) -> float:
    """Intersection over union of two spans of the same label, in [0, 1]; 0 for two labels.

    Of spans that do not overlap each other, at most one has more than ½ in common with any other span.
    """
    shared = min(left.end, right.end) - max(left.start, right.start)
    if left.label != right.label or shared <= 0:
        return 0.0
    return shared / (max(left.end, right.end) - min(left.start, right.start))


def span_f1(left: Sequence[Span], right: Sequence[Span]) -> float:
    """How much two sets of spans have in common: F₁ with partial credit, in [0, 1].

    2 Σ overlap / (|left| + |right|), the sum over the pairs of the one-to-one matching that makes it largest.
    It is symmetric, 1 for equal sets alone (both empty included), and the usual exact-match F₁ where spans
    that overlap at all are equal.
    """
    if not left and not right:
        return 1.0
    shares = np.array([[span_overlap(one, other) for other in right] for one in left])
    if not shares.any():
        return 0.0
    matched = shares[linear_sum_assignment(shares, maximize=True)]
    return 2.0 * math.fsum(matched) / (len(left) + len(right))


def _is_sound(span: Span) -> bool:
    return (
        type(span.start) is type(span.end) is int and 0 <= span.start < span.end and type(span.label) is str
    )
