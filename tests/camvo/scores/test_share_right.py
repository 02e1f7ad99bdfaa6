"""The estimated share of right labels: its interval by simulation, and its limits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit

from camvo.errors import InvalidParameterError
from camvo.scores.guarantee import ScoreCounts
from camvo.typing import Array

RUNS = 80


def project(rng: np.random.Generator, size: int, shift: float, slope: float) -> tuple[Array, Array]:
    """Scores of a project, and whether each label is right: σ(shift + slope · log-odds of the score)."""
    scores = np.clip(rng.beta(6.0, 1.2, size), 0.02, 0.995)
    return scores, (rng.random(size) < expit(shift + slope * logit(scores))).astype(np.float64)


def covered(shift: float, slope: float, reviewed: int, size: int, *, lowest: bool) -> float:
    """The share of simulated projects whose interval holds the true share of right labels."""
    rng, inside = np.random.default_rng(5), 0
    for _ in range(RUNS):
        scores, right = project(rng, size, shift, slope)
        chosen = np.argsort(scores)[:reviewed] if lowest else rng.choice(size, reviewed, replace=False)
        found = ScoreCounts.of(scores, list(zip(scores[chosen], right[chosen], strict=True))).share_right()
        inside += found.low <= right.mean() <= found.high
    return inside / RUNS


@pytest.mark.parametrize(
    ("shift", "slope", "reviewed", "lowest"),
    [
        (0.0, 1.0, 20, False),  # scores keep their word
        (0.0, 1.0, 40, True),  # people review the least certain labels, as camvo review suggests
        (-2.0, 1.0, 40, True),  # scores promise far too much
        (-3.3, 1.0, 15, False),
        (-0.5, 0.4, 40, True),  # high scores promise too much, and nobody reviewed one
        (1.0, 1.2, 20, False),  # scores promise too little
    ],
)
def test_the_interval_holds_the_true_share_as_often_as_it_says(
    shift: float, slope: float, reviewed: int, lowest: bool
) -> None:
    # 80 runs at 95% stay above 88% with a probability of 0.99
    assert covered(shift, slope, reviewed, 400, lowest=lowest) >= 0.88


def test_a_plain_share_of_the_least_certain_labels_would_be_far_off() -> None:
    rng = np.random.default_rng(6)
    scores, right = project(rng, 1000, 0.0, 1.0)
    lowest = np.argsort(scores)[:60]
    found = ScoreCounts.of(scores, list(zip(scores[lowest], right[lowest], strict=True))).share_right()
    assert right[lowest].mean() < right.mean() - 0.2
    assert found.share == pytest.approx(right.mean(), abs=0.08)


def test_without_reviewed_labels_the_estimate_is_near_the_mean_score_and_wide() -> None:
    found = ScoreCounts.of([0.8] * 100, []).share_right()
    assert 0.5 < found.share < 0.9
    assert found.high - found.low > 0.5


def test_labels_that_were_all_reviewed_leave_nothing_open() -> None:
    found = ScoreCounts.of([0.9] * 10, [(0.9, 1.0)] * 7 + [(0.9, 0.0)] * 3).share_right()
    assert (found.share, found.low, found.high) == pytest.approx((0.7, 0.7, 0.7), abs=1e-6)


def test_more_reviewed_labels_narrow_the_interval() -> None:
    widths = []
    for reviewed in (10, 50, 250):
        checked = [(0.85, 1.0)] * int(0.8 * reviewed) + [(0.85, 0.0)] * (reviewed - int(0.8 * reviewed))
        found = ScoreCounts.of([0.85] * 2000, checked).share_right()
        widths.append(found.high - found.low)
    assert widths[0] > 1.5 * widths[1] > 1.5**2 * widths[2]


def test_a_project_without_labels_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="labels"):
        ScoreCounts.of([], []).share_right()
