from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from camvo.scores.calibration import reliability, risk_curve


def answers(*items):
    """(label, score, truth) of each item as three arrays."""
    labels, scores, truth = zip(*items, strict=True)
    return np.array(labels), np.array(scores, dtype=np.float64), np.array(truth)


ITEM = st.tuples(st.integers(0, 2), st.sampled_from([0.0, 0.2, 0.25, 0.5, 0.7, 1.0]), st.integers(-1, 2))
KNOWN = st.tuples(st.integers(0, 2), st.sampled_from([0.2, 0.5, 0.7]), st.integers(0, 2))


@given(st.lists(ITEM, min_size=1, max_size=30))
def test_a_bin_holds_the_scores_between_its_edges(items):
    bins = reliability(*answers(*items), bins=4)
    for number in range(4):
        inside = [
            (score, label == truth)
            for label, score, truth in items
            if truth >= 0 and (number / 4 < score <= (number + 1) / 4 or number == score == 0)
        ]
        assert bins.counts[number] == len(inside)
        if inside:
            score, right = np.mean(inside, axis=0)
            assert (bins.score[number], bins.accuracy[number]) == pytest.approx((score, right))
        else:
            assert np.isnan([bins.score[number], bins.accuracy[number]]).all()


def test_an_item_without_an_answer_is_in_no_bin():
    assert reliability(*answers((-1, np.nan, 0), (0, 0.9, 0))).counts.sum() == 1


@given(st.lists(KNOWN, min_size=1, max_size=6))
def test_the_risk_is_the_mean_over_all_orders_of_equal_scores(items):
    orders = [
        order
        for order in permutations(items)
        if all(order[i][1] >= order[i + 1][1] for i in range(len(order) - 1))
    ]
    errors = np.array([[label != truth for label, _, truth in order] for order in orders])
    expected = (errors.cumsum(axis=1) / np.arange(1, len(items) + 1)).mean(axis=0)
    assert risk_curve(*answers(*items)) == pytest.approx(expected)


def test_an_item_without_an_answer_is_wrong_and_comes_last():
    assert risk_curve(*answers((-1, np.nan, 0), (0, 0.1, 0))).tolist() == [0.0, 0.5]


def test_an_item_of_unknown_truth_has_no_risk():
    assert risk_curve(*answers((0, 0.9, -1), (0, 0.1, 1))).tolist() == [1.0]
