from __future__ import annotations

import math

import numpy as np
import pytest
from correlated_votes import (
    PAPER_MODELS,
    binary_correlation,
    bivariate_normal,
    calibrate_copula,
    equal_correlation,
    heterogeneous_correlation,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtri

from camvo.errors import InvalidParameterError

MU = np.array([model.accuracy for model in PAPER_MODELS.values()])
points = st.one_of(st.just(0.0), st.floats(-4.0, 4.0))
means = st.floats(0.02, 0.98)


@given(points, points, st.floats(-0.999, 0.999))
@settings(deadline=None)
def test_the_bivariate_normal_distribution_is_scipys(h, k, rho):
    expected = stats.multivariate_normal.cdf([h, k], cov=[[1.0, rho], [rho, 1.0]], abseps=1e-9)
    assert bivariate_normal(h, k, rho) == pytest.approx(expected, abs=1e-7)


@given(points, points)
@settings(deadline=None)
def test_perfectly_correlated_normals_are_one_variable_and_its_mirror_image(h, k):
    assert bivariate_normal(h, k, 1.0) == pytest.approx(stats.norm.cdf(min(h, k)), abs=1e-12)
    mirrored = max(stats.norm.cdf(h) - stats.norm.cdf(-k), 0.0)
    assert bivariate_normal(h, k, -1.0) == pytest.approx(mirrored, abs=1e-12)


@given(means, means)
@settings(deadline=None)
def test_no_two_binary_variables_correlate_beyond_frechets_bounds(mu, other):
    low, high = sorted((mu, other))
    most = math.sqrt(low * (1.0 - high) / (high * (1.0 - low)))
    assert binary_correlation(mu, other, 1.0) == pytest.approx(most, abs=1e-9)
    assert -1.0 - 1e-9 <= binary_correlation(mu, other, -1.0) <= 0.0


@given(means, means, st.floats(-0.99, 0.99), st.floats(0.001, 0.5))
@settings(deadline=None)
def test_the_binary_correlation_rises_with_the_latent_one(mu, other, rho, more):
    higher = binary_correlation(mu, other, min(rho + more, 1.0))
    assert higher >= binary_correlation(mu, other, rho) - 1e-9


@given(means, means, st.floats(-0.95, 0.95))
@settings(deadline=None)
def test_calibrating_for_what_a_latent_correlation_gives_recovers_it(mu, other, rho):
    target = binary_correlation(mu, other, rho)
    calibration = calibrate_copula(np.array([mu, other]), np.array([[1.0, target], [target, 1.0]]))
    assert calibration.attained[0, 1] == pytest.approx(target, abs=1e-9)
    assert not calibration.clamped.any()


@pytest.mark.parametrize(
    "target",
    [equal_correlation(0.0), equal_correlation(0.3), equal_correlation(0.5), heterogeneous_correlation()],
    ids=["0", "0.3", "0.5", "heterogeneous"],
)
def test_the_papers_attainable_set_ups_are_attained(target):
    calibration = calibrate_copula(MU, target)
    np.testing.assert_allclose(calibration.attained, target, atol=1e-10)
    assert not calibration.clamped.any()


def test_the_papers_strongest_correlations_are_clamped_to_what_the_means_allow():
    calibration = calibrate_copula(MU, equal_correlation(0.8))
    best, worst = list(PAPER_MODELS).index("o3-mini"), list(PAPER_MODELS).index("claude-3-5-haiku")
    most = math.sqrt(0.6409 * (1.0 - 0.8592) / (0.8592 * (1.0 - 0.6409)))
    assert calibration.clamped[best, worst]
    assert calibration.clamped[worst, best]
    assert calibration.attained[best, worst] == pytest.approx(most, abs=1e-3)
    assert np.triu(calibration.clamped).sum() == 10
    assert np.linalg.eigvalsh(calibration.latent)[0] >= -1e-9


def test_thresholded_normals_have_the_target_means_and_correlations():
    target = heterogeneous_correlation()
    calibration = calibrate_copula(MU, target)
    drawn = np.random.default_rng(4).multivariate_normal(np.zeros(7), calibration.latent, size=200_000)
    right = drawn > ndtri(1.0 - MU)
    np.testing.assert_allclose(right.mean(axis=0), MU, atol=5e-3)
    np.testing.assert_allclose(np.corrcoef(right.T), target, atol=1.2e-2)


def test_pairs_that_contradict_each_other_are_projected_and_the_attained_correlation_is_reported():
    target = np.array([[1.0, -0.6, -0.6], [-0.6, 1.0, -0.6], [-0.6, -0.6, 1.0]])
    calibration = calibrate_copula(np.full(3, 0.5), target)
    assert np.linalg.eigvalsh(calibration.latent)[0] >= -1e-12
    np.testing.assert_allclose(np.diag(calibration.latent), 1.0)
    # Three equal correlations of normals are at least −½, and two fair coins then have asin(−½)·2/π = −⅓.
    assert calibration.attained[0, 1] == pytest.approx(-1.0 / 3.0, abs=1e-9)
    assert not calibration.clamped.any()


@pytest.mark.parametrize(
    ("mu", "target"),
    [
        ([0.5, 1.0], [[1.0, 0.1], [0.1, 1.0]]),
        ([0.5, math.nan], [[1.0, 0.1], [0.1, 1.0]]),
        ([0.5, 0.6], [[1.0, 0.1], [0.2, 1.0]]),
        ([0.5, 0.6], [[1.0, 1.1], [1.1, 1.0]]),
        ([0.5, 0.6], [[0.9, 0.1], [0.1, 1.0]]),
        ([0.5, 0.6, 0.7], [[1.0, 0.1], [0.1, 1.0]]),
    ],
    ids=["mean of 1", "nan", "asymmetric", "above 1", "diagonal", "shape"],
)
def test_invalid_means_and_correlations_are_refused(mu, target):
    with pytest.raises(InvalidParameterError):
        calibrate_copula(np.array(mu), np.array(target))
