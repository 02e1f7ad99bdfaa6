from __future__ import annotations

from dataclasses import astuple
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy.stats import ttest_1samp
from sklearn.calibration import calibration_curve
from sklearn.metrics import accuracy_score, precision_recall_fscore_support

from camvo.replays import measures
from camvo.votes.labels import weighted_vote

M = 4
positions = st.integers(-1, M - 1)


def drawn(n=500, seed=0, unknown=0.1, silent=0.1):
    """Draw labels, scores and truth, some of them missing."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(M, size=n)
    labels = np.where(rng.random(n) < 0.7, truth, rng.integers(M, size=n))
    labels[rng.random(n) < silent] = -1
    truth[rng.random(n) < unknown] = -1
    return labels, np.where(labels >= 0, rng.random(n), np.nan), truth


def test_accuracy_is_scikit_learns_over_the_known_truth():
    labels, _, truth = drawn()
    known = truth >= 0
    assert measures.accuracy(labels, truth) == accuracy_score(truth[known], labels[known])


def test_an_item_without_an_answer_is_wrong():
    assert measures.accuracy(np.array([0, -1]), np.array([0, 0])) == 0.5


def test_without_a_known_truth_there_is_no_measure():
    labels, scores, _ = drawn()
    truth = np.full(len(labels), -1)
    assert measures.accuracy(labels, truth) is None
    assert measures.calibration_error(labels, scores, truth) is None
    assert measures.risk_coverage_area(labels, scores, truth) is None
    assert {quality.support for quality in measures.quality_by_label(labels, truth, M)} == {0}


def test_the_calibration_error_is_the_gap_of_scikit_learns_reliability_curve():
    labels, scores, truth = drawn()
    counted = (labels >= 0) & (truth >= 0)
    right, score = labels[counted] == truth[counted], scores[counted]
    observed, predicted = calibration_curve(right, score, n_bins=15)
    sizes = np.histogram(score, bins=15, range=(0.0, 1.0))[0]
    expected = np.average(np.abs(observed - predicted), weights=sizes[sizes > 0])
    assert measures.calibration_error(labels, scores, truth) == pytest.approx(expected, abs=1e-12)


def test_a_score_on_the_edge_of_two_bins_belongs_to_the_lower_one():
    labels, truth = np.zeros(2, dtype=int), np.array([0, 1])
    apart, together = np.array([0.5, 0.6]), np.array([0.4, 0.5])
    assert measures.calibration_error(labels, apart, truth, bins=2) == pytest.approx((0.5 + 0.6) / 2)
    assert measures.calibration_error(labels, together, truth, bins=2) == pytest.approx(0.05)


def test_scores_of_0_and_1_are_in_a_bin():
    labels, truth = np.zeros(2, dtype=int), np.array([1, 0])
    assert measures.calibration_error(labels, np.array([0.0, 1.0]), truth) == 0.0


@given(npst.arrays(np.int64, 5, elements=st.integers(0, 2)), npst.arrays(np.bool_, 5))
def test_aurc_is_the_mean_over_every_order_that_the_scores_allow(score, right):
    labels, truth = np.where(right, 0, 1), np.zeros(5, dtype=int)
    areas = []
    for order in permutations(range(5)):
        ordered = score[list(order)]
        if np.all(np.diff(ordered) <= 0):
            wrong = ~right[list(order)]
            areas.append(np.mean([wrong[: m + 1].mean() for m in range(5)]))
    assert measures.risk_coverage_area(labels, score / 2.0, truth) == pytest.approx(np.mean(areas))


def test_aurc_ranks_an_item_without_an_answer_last():
    labels, truth = np.array([-1, 0, 0]), np.array([0, 0, 1])
    assert measures.risk_coverage_area(labels, np.array([np.nan, 0.9, 0.0]), truth) == pytest.approx(
        (0 + 1 / 2 + 2 / 3) / 3
    )


def test_precision_recall_and_f1_of_each_label_are_scikit_learns():
    labels, _, truth = drawn()
    known = truth >= 0
    expected = precision_recall_fscore_support(truth[known], labels[known], labels=range(M))
    qualities = measures.quality_by_label(labels, truth, M)
    for name, column in zip(("precision", "recall", "f1", "support"), expected, strict=True):
        assert [getattr(quality, name) for quality in qualities] == pytest.approx(list(column))


def test_a_ratio_whose_denominator_is_0_is_none():
    predicted, absent = measures.quality_by_label(np.array([0, 0]), np.array([0, 0]), 2)
    assert astuple(predicted) == (1.0, 1.0, 1.0, 2)
    assert astuple(absent) == (None, None, None, 0)
    missed, wrong = measures.quality_by_label(np.array([1]), np.array([0]), 2)
    assert astuple(missed) == (None, 0.0, 0.0, 1)
    assert astuple(wrong) == (0.0, None, 0.0, 0)


@given(
    npst.arrays(np.int64, (6, 3), elements=positions),
    npst.arrays(np.int64, 6, elements=positions),
)
def test_the_full_vote_is_the_weighted_vote_by_true_accuracy(votes, truth):
    known = truth >= 0
    weights = {}
    for model in range(3):
        cast = known & (votes[:, model] >= 0)
        weights[model] = float((votes[cast, model] == truth[cast]).mean()) if cast.any() else 0.0
    if not known.any():
        weights = dict.fromkeys(weights, 1.0)
    for row, label in zip(votes, measures.full_vote(votes, truth, M), strict=True):
        cast = {model: vote for model, vote in enumerate(row) if vote >= 0}
        assert label == (weighted_vote(cast, weights, range(M), weights) if cast else -1)


def test_the_accuracy_of_a_model_is_that_of_the_votes_it_gave():
    votes, truth = np.array([[0, -1], [1, -1], [-1, 1], [1, -1]]), np.array([0, 0, 1, -1])
    assert measures.model_accuracy(votes, truth).tolist() == [0.5, 1.0]
    assert np.isnan(measures.model_accuracy(np.array([[-1]]), np.array([0]))).all()


def test_agreement_is_over_the_items_that_the_full_vote_decides():
    assert measures.full_vote_agreement(np.array([0, 1, -1, 1]), np.array([0, 0, 1, -1])) == pytest.approx(
        1 / 3
    )
    assert measures.full_vote_agreement(np.array([0]), np.array([-1])) is None


def test_the_interval_is_that_of_students_t():
    values = [0.9, 0.92, 0.85, 0.95]
    mean, interval = measures.mean_interval(values)
    expected = ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert mean == pytest.approx(np.mean(values))
    assert interval == pytest.approx((expected.low, expected.high))


def test_a_single_run_has_no_interval():
    assert measures.mean_interval([0.5]) == (0.5, None)
