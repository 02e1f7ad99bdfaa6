"""How far labels on a scale are from the right ones."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from camvo.replays.measures import scale_median, scale_quality


def test_quality_of_labels_on_a_scale():
    quality = scale_quality(np.array([0, 1, 2, 4]), np.array([0, 2, 2, 1]))
    assert (quality.within_one, quality.absolute) == (0.75, 1.0)


def test_kappa_is_cohens_with_quadratic_weights():
    rng = np.random.default_rng(0)
    truth = rng.integers(5, size=300)
    labels = np.clip(truth + rng.integers(-1, 3, size=300), 0, 4)
    expected = cohen_kappa_score(labels, truth, weights="quadratic")
    assert scale_quality(labels, truth).kappa == pytest.approx(expected)


def test_labels_that_never_vary_have_no_kappa():
    assert scale_quality(np.ones(5, dtype=int), np.ones(5, dtype=int)).kappa is None


def test_items_without_answer_or_truth_are_left_out():
    quality = scale_quality(np.array([0, -1, 3]), np.array([1, 2, -1]))
    assert quality.absolute == 1.0
    assert scale_quality(np.array([-1]), np.array([2])) is None


def test_median_of_all_weighs_votes():
    votes = np.array([[0, 4, 4], [-1, -1, -1], [0, 1, -1]])
    assert scale_median(votes, np.ones(3), 5).tolist() == [4, -1, 0]
    assert scale_median(votes, np.array([3.0, 1.0, 1.0]), 5).tolist() == [0, -1, 0]
