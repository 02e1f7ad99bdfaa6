"""The alarm about scores: how often it is false at repeated looks, and how soon it comes when it is true."""

from __future__ import annotations

import numpy as np
import pytest

from camvo.scores.calibration import _LEAST, _LEVEL, _TOLERANCE, ScoreCheck

RUNS = 150
LABELS = 100


def first_alarm(rng: np.random.Generator, gap: float, labels: int) -> int | None:
    """After how many labels the alarm comes, at looks after every other one; shares are scores less a gap."""
    scores = np.clip(rng.beta(6.0, 1.2, labels), 0.1, 0.94)
    right = (rng.random(labels) < scores - gap).astype(np.float64)
    pairs = list(zip(scores, right, strict=True))
    for looked in range(_LEAST, labels + 1, 2):
        found = ScoreCheck.of(pairs[:looked])
        if found is not None and found.off is not None:
            return looked
    return None


@pytest.mark.parametrize("gap", [0.0, _TOLERANCE, -_TOLERANCE])
def test_scores_within_the_tolerance_hardly_ever_raise_it_however_often_one_looks(gap: float) -> None:
    rng = np.random.default_rng(3)
    false = sum(first_alarm(rng, gap, LABELS) is not None for _ in range(RUNS))
    assert false / RUNS <= _LEVEL + 2 * (_LEVEL / RUNS) ** 0.5


def test_a_project_that_is_right_a_seventh_of_the_time_is_noticed_within_15_labels() -> None:
    """The case of issue 15: a mean score of 0.83, and 14.6% right by 41 human labels."""
    rng = np.random.default_rng(4)
    noticed = [first_alarm(rng, 0.68, 41) for _ in range(50)]
    assert None not in noticed
    assert np.median([at for at in noticed if at is not None]) <= 15


def test_fewer_than_ten_labels_raise_nothing() -> None:
    assert ScoreCheck.of([(0.99, 0.0)] * 9).off is None  # type: ignore[union-attr]
    assert ScoreCheck.of([(0.99, 0.0)] * 10).off == "high"  # type: ignore[union-attr]


def test_scores_that_promise_too_little_are_off_as_well() -> None:
    found = ScoreCheck.of([(0.4, 1.0)] * 40)
    assert found is not None
    assert found.off == "low"


def test_it_is_over_once_the_latest_labels_agree_with_their_scores() -> None:
    wrong, mended = [(0.9, 0.0)] * 40, [(0.9, 1.0)] * 90 + [(0.9, 0.0)] * 10
    assert ScoreCheck.of(wrong).off == "high"  # type: ignore[union-attr]
    assert ScoreCheck.of(wrong + mended).off is None  # type: ignore[union-attr]


def test_latest_labels_within_the_tolerance_of_their_scores_end_it_in_either_direction() -> None:
    """Of 100 labels, 85 right may be 85% of all, and 50 right 45%: 5 points from scores of 0.9 and of 0.4."""
    much, little = [(0.9, 0.0)] * 40, [(0.4, 1.0)] * 40
    assert ScoreCheck.of(much + [(0.9, 1.0)] * 85 + [(0.9, 0.0)] * 15).off is None  # type: ignore[union-attr]
    assert ScoreCheck.of(little + [(0.4, 1.0)] * 50 + [(0.4, 0.0)] * 50).off is None  # type: ignore[union-attr]


def test_without_labels_there_is_nothing_to_check() -> None:
    assert ScoreCheck.of([]) is None
