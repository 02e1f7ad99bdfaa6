from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit

from camvo.errors import InvalidParameterError
from camvo.scores.calibration import fit_calibration

GRID = np.linspace(0.0, 1.0, 1001)


def drawn(n, chance, seed):
    rng = np.random.default_rng(seed)
    scores = rng.beta(4.0, 1.0, n)
    return scores, (rng.random(n) < chance(scores)).astype(float)


def too_sure(scores):
    return expit(0.5 * logit(np.clip(scores, 1e-9, 1 - 1e-9)) - 0.3)


def stairs(scores):
    """No Beta map: flat, a jump, flat, a jump."""
    return np.where(scores < 0.5, 0.1, np.where(scores < 0.85, 0.45, 0.97))


@given(
    labels=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1)), max_size=40),
    copies=st.sampled_from([1, 20]),
)
@settings(max_examples=60, deadline=None)
def test_the_map_is_monotone_and_stays_in_the_unit_interval(labels, copies):
    pairs = np.array(labels * copies, dtype=float).reshape(-1, 2)
    values = fit_calibration(pairs[:, 0], pairs[:, 1])(GRID)
    assert (np.diff(values) >= -1e-12).all()
    assert 0.0 <= values[0] <= values[-1] <= 1.0


def test_without_labels_the_calibration_is_the_identity():
    np.testing.assert_allclose(fit_calibration([], [])(GRID), GRID, atol=2e-6)


def test_five_labels_cannot_reverse_the_map():
    worst = fit_calibration([0.9] * 5, [0.0] * 5)(GRID)
    assert np.abs(worst - GRID).max() < 0.3


@pytest.mark.parametrize(("labels", "at_most"), [(100, 0.08), (500, 0.05), (5000, 0.02)])
def test_overconfident_scores_are_lowered_to_the_accuracy(labels, at_most):
    errors = []
    for seed in range(5):
        fitted = fit_calibration(*drawn(labels, too_sure, seed))
        asked, _ = drawn(5000, too_sure, 99)
        errors.append(np.abs(fitted(asked) - too_sure(asked)).mean())
    assert np.mean(errors) < at_most < np.abs(asked - too_sure(asked)).mean()


def test_a_map_that_is_not_a_beta_map_is_learnt_from_many_labels_only():
    assert not fit_calibration(*drawn(100, stairs, 1)).knots
    many = fit_calibration(*drawn(4000, stairs, 1))
    assert many.knots
    asked, _ = drawn(5000, stairs, 2)
    assert np.abs(many(asked) - stairs(asked)).mean() < 0.03


def test_the_isotonic_map_is_not_used_if_a_beta_map_fits():
    assert sum(bool(fit_calibration(*drawn(2000, too_sure, seed)).knots) for seed in range(10)) <= 2


def test_scores_without_an_error_are_not_mapped_to_certainty():
    scores, right = drawn(4000, stairs, 3)
    right[scores > 0.9] = 1.0
    fitted = fit_calibration(scores, right)
    assert fitted.knots
    assert 0.98 < fitted(1.0) < 1.0


def test_withdrawn_labels_leave_no_trace():
    scores, right = drawn(600, too_sure, 4)
    assert fit_calibration(scores[:400], right[:400]) == fit_calibration(
        scores[:400].copy(), right[:400].copy()
    )


@pytest.mark.parametrize(
    ("scores", "right"), [([0.5], [0.0, 1.0]), ([1.5], [1.0]), ([0.5], [2.0]), ([float("nan")], [1.0])]
)
def test_invalid_scores_and_rewards_are_refused(scores, right):
    with pytest.raises(InvalidParameterError):
        fit_calibration(scores, right)
