"""What one more human label is worth: what it teaches, and how long it takes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from camvo.errors import InvalidParameterError
from camvo.scores.reviews import _HALF, _SHARE, TaughtBefore, _taught_share, seconds_per_label, teaches

NUMBERS = st.floats(0.0, 1e6)


def test_all_labels_together_teach_the_share() -> None:
    assert sum(teaches(1.0, n) for n in range(100_000)) == pytest.approx(_SHARE, rel=0.02)


def test_half_of_that_is_taught_by_the_first_hundred() -> None:
    assert sum(teaches(1.0, n) for n in range(int(_HALF))) == pytest.approx(_SHARE / 2, rel=0.02)


@given(wrong=NUMBERS, labels=st.integers(0, 10_000))
def test_each_label_teaches_less_than_the_one_before(wrong: float, labels: int) -> None:
    assert teaches(wrong, labels) >= teaches(wrong, labels + 1) >= 0.0


def test_a_label_teaches_more_where_more_labels_are_wrong() -> None:
    assert teaches(2000.0, 10) == pytest.approx(10.0 * teaches(200.0, 10))


def test_a_few_tasks_say_little_and_many_say_everything() -> None:
    few = TaughtBefore(labels=100.0, wrong=1.0, gained=0.0, moved=0.0)
    many = TaughtBefore(labels=100.0, wrong=4000.0, gained=400.0, moved=500.0)
    assert _taught_share(few) == pytest.approx(_SHARE, rel=0.01)
    assert _taught_share(many) == pytest.approx(400.0 / 4000.0 * 2.0, rel=0.15)


def test_labels_that_made_others_worse_teach_nothing() -> None:
    assert _taught_share(TaughtBefore(labels=500.0, wrong=2000.0, gained=-100.0, moved=300.0)) == 0.0


def test_the_estimate_finds_the_truth_of_a_simulation() -> None:
    rng, found = np.random.default_rng(1), []
    labels, wrong, share = 200.0, 6000, 0.12
    rate = share * labels / (labels + _HALF)
    for _ in range(200):
        gained, lost = rng.binomial(wrong, rate + 0.02), rng.binomial(wrong, 0.02)
        seen = TaughtBefore(labels, float(wrong), float(gained - lost), float(gained + lost))
        found.append(_taught_share(seen))
    assert _SHARE < np.mean(found) < share
    assert np.mean(found) == pytest.approx(share, rel=0.1)


def test_negative_numbers_are_refused() -> None:
    for wrong, labels in ((-1.0, 0), (1.0, -1)):
        with pytest.raises(InvalidParameterError):
            teaches(wrong, labels)


def test_an_open_tab_over_lunch_counts_as_five_times_the_median() -> None:
    usual = [10.0] * 99
    assert seconds_per_label([*usual, 3600.0]) == pytest.approx(seconds_per_label([*usual, 50.0]))


def test_without_times_a_label_takes_twenty_seconds() -> None:
    assert seconds_per_label([]) == 20.0
    assert seconds_per_label([8.0] * 1000) == pytest.approx(8.0, rel=0.01)
