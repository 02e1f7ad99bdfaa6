"""Counts as a share with its interval."""

from __future__ import annotations

from collections.abc import Iterable

from backend.server.status.report import Share
from camvo.numerics.proportion import clopper_pearson


def share(counts: Iterable[tuple[int, float]]) -> Share:
    """The share over all pairs of (how many, how right they were in sum)."""
    pairs = list(counts)
    count, right = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    if not count:
        return Share(0, 0.0, None, None, None)
    low, high = clopper_pearson(right, count)
    return Share(count, right, right / count, low, high)
