"""How many of all labels of one question are right, and whether its scores keep their word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from backend.ledger.reports import SCORE_BINS, CheckedRow
from camvo.numerics.proportion import clopper_pearson
from camvo.scores.score_check import ScoreCheck, check_scores
from camvo.scores.share_right import ScoreCounts, corrected_share, score_bin
from camvo.typing import Array

LEAST = 10
"""Checked labels from which on a share is estimated from them."""

Basis = Literal["blind", "reviewed", "score"]


@dataclass(frozen=True, slots=True)
class EstimateReport:
    """The estimated share of all labels of one question that are right.

    Attributes:
        basis: what it rests on. ``blind``: the share of blind labels that were right. ``reviewed``: the
            score, corrected by labels that people reviewed; they may have chosen them, or seen the
            prediction. ``score``: the mean score alone, since fewer than ten labels were checked.
        labels: the number of all labels.
        checked: the number of labels that it rests on.
        share: the estimate.
        low: the lower bound of its 95% interval, ``None`` for the mean score.
        high: the upper bound.
    """

    basis: Basis
    labels: int
    checked: int
    share: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class ScoreCheckReport:
    """The scores of the latest labels that people checked, beside how many of them were right.

    Attributes:
        basis: ``blind`` or ``reviewed`` labels.
        count: their number.
        score: their mean score.
        share: the share that was right, with its 95% interval from ``low`` to ``high``.
        low: the lower bound.
        high: the upper bound.
        off: whether scores are too ``high`` or too ``low``; ``None`` if nothing says so.
    """

    basis: Basis
    count: int
    score: float
    share: float
    low: float
    high: float
    off: Literal["high", "low"] | None


def estimate_report(score_counts: Sequence[int], checked: Sequence[CheckedRow]) -> EstimateReport | None:
    """Estimate the share of right labels; ``None`` without a label.

    Args:
        score_counts: how many labels each bin of the score has.
        checked: the labels with a human answer.
    """
    labels = sum(score_counts)
    if not labels:
        return None
    blind = [row.confirmed for row in checked if row.audit]
    reviewed = [row for row in checked if not row.audit]
    if len(blind) >= LEAST:
        low, high = clopper_pearson(sum(blind), len(blind))
        return EstimateReport("blind", labels, len(blind), sum(blind) / len(blind), low, high)
    if len(reviewed) >= LEAST:
        found = corrected_share(_counts(score_counts, reviewed))
        return EstimateReport("reviewed", labels, len(reviewed), found.share, found.low, found.high)
    return EstimateReport("score", labels, len(checked), mean_score(score_counts), None, None)


def mean_score(score_counts: Sequence[int]) -> float:
    """The mean score of labels that are sorted into bins."""
    middles = (np.arange(SCORE_BINS) + 0.5) / SCORE_BINS
    return float(np.average(middles, weights=np.asarray(score_counts, dtype=np.float64)))


def score_check_report(checked: Sequence[CheckedRow]) -> ScoreCheckReport | None:
    """Check the scores against blind labels, and against reviewed ones if there are not enough of those.

    People agree easily with a prediction that they see. So reviewed labels can say that scores promise too
    much, but not that they promise too little.
    """
    for basis, audit in (("blind", True), ("reviewed", False)):
        labels = [(row.score, row.confirmed) for row in checked if row.audit is audit]
        if len(labels) >= LEAST and (found := check_scores(labels)) is not None:
            return _report("blind" if basis == "blind" else "reviewed", found)
    return None


def _report(basis: Basis, found: ScoreCheck) -> ScoreCheckReport:
    off = None if basis == "reviewed" and found.off == "low" else found.off
    return ScoreCheckReport(basis, found.count, found.score, found.share, found.low, found.high, off)


def _counts(score_counts: Sequence[int], reviewed: Sequence[CheckedRow]) -> ScoreCounts:
    labels: Array = np.asarray(score_counts, dtype=np.float64)
    checked, right = np.zeros(SCORE_BINS), np.zeros(SCORE_BINS)
    for row in reviewed:
        place = int(score_bin(np.asarray(row.score)))
        checked[place] += 1.0
        right[place] += row.confirmed
    return ScoreCounts(np.maximum(labels, checked), checked, right)
