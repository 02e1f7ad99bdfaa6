"""How much more often people take a label that they are shown than they give it when they do not see it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.stats import norm

_LEVEL: Final = 0.95
_BINS: Final = 5
"""Quantiles of the score, within which labels count as equally easy."""

_LEAST: Final = 20
"""Labels of either kind from which on the difference is computed."""

_FALSE_ALARM: Final = 0.05
_EARLY: Final = 60.0
"""The number of labels at which the test of any difference is sharpest, over all looks."""

_EXPECTED: Final = 0.12
"""A likely difference: its test is sharpest at some 300 labels, where it finds 15 points."""

_LIKELY: Final = 0.9
"""The part that this difference has in the test; any difference has the rest."""


@dataclass(frozen=True, slots=True)
class Suggested:
    """One person's label of one task.

    Attributes:
        person: who gave it.
        score: the score of the vote's label.
        shown: whether the person saw the vote's label before.
        agreed: whether the person gave it.
    """

    person: int
    score: float
    shown: bool
    agreed: bool


@dataclass(frozen=True, slots=True)
class Anchoring:
    """How much more often the vote's label is given when it is shown.

    Attributes:
        more: the difference of the shares, of the same people at alike scores, in [−1, 1].
        low: the lower end of its 95% interval.
        high: the upper end.
        shown: labels that were given after seeing the vote's label.
        blind: labels that were given without.
        clear: whether the difference is above 0. Without any, this is true at some look in at most 5% of
            projects.
    """

    more: float
    low: float
    high: float
    shown: int
    blind: int
    clear: bool


def anchoring(labels: Sequence[Suggested]) -> Anchoring | None:
    """Compare shown with blind labels of the same people, within quantiles of the score.

    The difference is that of Mantel and Haenszel with Sato's variance (1989), which holds in few large strata
    and in many small ones. One agreeing and one other label are added on either side, as Agresti and Caffo
    (2000) do, so that a share of 0 or 1 is not certain. Over all looks a mixture of differences, a likely one
    of 12 points and any, bounds the test (Robbins 1970).

    Returns:
        ``None`` with fewer than 20 labels of either kind, of people who gave both.
    """
    of_person = defaultdict(list)
    for label in labels:
        of_person[label.person].append(label)
    both = [
        label
        for said in of_person.values()
        if {label.shown for label in said} == {True, False}
        for label in said
    ]
    shown = sum(label.shown for label in both)
    blind = len(both) - shown
    if min(shown, blind) < _LEAST:
        return None
    edges = np.quantile([label.score for label in both], np.linspace(0.0, 1.0, _BINS + 1)[1:-1])
    bins = np.searchsorted(edges, [label.score for label in both], side="right").tolist()
    strata: dict[tuple[int, int], list[list[int]]] = defaultdict(lambda: [[0, 0], [0, 0]])
    for label, number in zip(both, bins, strict=True):
        strata[label.person, number][label.shown][label.agreed] += 1
    table = np.array([strata[key] for key in sorted(strata)], dtype=np.float64)  # (strata, shown, agreed)
    counts = table.sum(axis=2) * (1.0 + 2.0 / np.array([blind, shown]))
    agreed = table[:, :, 1] + table.sum(axis=2) / np.array([blind, shown])
    n0, n1, b, a, whole = counts[:, 0], counts[:, 1], agreed[:, 0], agreed[:, 1], counts.sum(axis=1)
    weight = float((n1 * n0 / whole).sum())
    if weight <= 0.0:
        return None
    more = float(((a * n0 - b * n1) / whole).sum()) / weight
    p = ((n1**2 * b - n0**2 * a + n1 * n0 * (n0 - n1) / 2.0) / whole**2).sum()
    q = ((a * (n0 - b) + b * (n1 - a)) / (2.0 * whole)).sum()
    error = math.sqrt(max(float(more * p + q), 1e-12)) / weight
    reach = float(norm.ppf((1.0 + _LEVEL) / 2.0)) * error
    low, high = max(more - reach, -1.0), min(more + reach, 1.0)
    return Anchoring(more, low, high, shown, blind, _at_every_look(more, error, weight))


def _at_every_look(more: float, error: float, weight: float) -> bool:
    """Whether a mixture of a likely difference and all positive ones is 1/α times as likely as none."""
    z, ratio, expected = more / error, 4.0 * weight / _EARLY, _EXPECTED / error
    part = ratio / (1.0 + ratio)
    half_normal = norm.logcdf(z * math.sqrt(part)) + z * z * part / 2.0 - math.log1p(ratio) / 2.0
    log_ratio = np.logaddexp(
        math.log(_LIKELY) + z * expected - expected**2 / 2.0,
        math.log(2.0 * (1.0 - _LIKELY)) + half_normal,
    )
    return z > 0.0 and float(log_ratio) >= -math.log(_FALSE_ALARM)
