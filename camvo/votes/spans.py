"""Sets of labelled spans as votes: how they are written, and how similar two of them are."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from camvo.errors import InvalidParameterError
from camvo.typing import Array


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
    """Read the spans of a vote, sorted. A vote may have no spans.

    Raises:
        InvalidParameterError: the vote is not in the form of :func:`write_spans`.
    """
    try:
        spans = tuple(Span(*entry) for entry in json.loads(vote))
        valid = all(_is_valid(span) for span in spans) and write_spans(spans) == vote
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidParameterError("a vote on spans is not a JSON array of [start, end, label]") from error
    if not valid:
        raise InvalidParameterError(
            "a vote on spans is not sorted, has a duplicate or is not in compact form"
        )
    return spans


def span_overlap(left: Span, right: Span) -> float:
    """Compute the intersection over union of two spans, in [0, 1]; 0 if their labels differ.

    Among spans that do not overlap each other, at most one overlaps a given span by more than ½.
    """
    shared = min(left.end, right.end) - max(left.start, right.start)
    if left.label != right.label or shared <= 0:
        return 0.0
    return shared / (max(left.end, right.end) - min(left.start, right.start))


class SpanColumns:
    """Many spans as columns of numbers, to compare them all at once.

    Args:
        spans: n spans.
    """

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


def span_f1(left: Sequence[Span], right: Sequence[Span]) -> float:
    """Compute F₁ with partial credit between two sets of spans, in [0, 1].

    F₁ is 2 Σ overlap / (|left| + |right|), summed over the one-to-one matching of spans with the largest sum.
    It is symmetric, and 1 only for equal sets (two empty sets included). If spans either are equal or do not
    overlap, it is the usual exact-match F₁.
    """
    if not left and not right:
        return 1.0
    columns = SpanColumns(right)
    overlaps = np.array([columns.overlaps(span) for span in left])
    if not overlaps.any():
        return 0.0
    matched = overlaps[linear_sum_assignment(overlaps, maximize=True)]
    return 2.0 * math.fsum(matched) / (len(left) + len(right))


def _is_valid(span: Span) -> bool:
    return (
        type(span.start) is type(span.end) is int and 0 <= span.start < span.end and type(span.label) is str
    )
