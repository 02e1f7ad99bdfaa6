from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from camvo.errors import InvalidParameterError
from camvo.numerics.small import EPSILON
from camvo.state.arm import BetaSums, _ClassSums, posterior

estimates = st.floats(-0.5, 1.5)
rewards = st.sampled_from([0.0, 1.0])


def filled(rounds):
    sums = BetaSums()
    for q, reward in rounds:
        sums.add(q, reward, +1)
    return sums


def believed(sums, theta, mu):
    return float(posterior(np.array([theta]), np.array([mu]), np.array([sums.evidence()]).T)[0])


def test_the_moments_give_back_the_distribution_that_was_drawn_from():
    sums = _ClassSums()
    for q in np.random.default_rng(0).beta(4.0, 2.0, size=50_000):
        sums.add(float(q), 1.0)
    assert sums.moments() == pytest.approx((4.0, 2.0), rel=0.03)


@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=40))
@settings(deadline=None)
def test_the_fitted_distribution_is_proper_and_has_the_samples_mean_and_clipped_variance(qs):
    sums = _ClassSums()
    for q in qs:
        sums.add(q, 1.0)
    fitted = sums.moments()
    if fitted is None:
        assert np.var(qs) <= EPSILON
        return
    alpha, beta = fitted
    assert alpha > 0.0
    assert beta > 0.0
    mean = np.mean(qs)
    ceiling = mean * (1.0 - mean) * (1.0 - EPSILON)
    variance = min(max(np.var(qs), EPSILON), ceiling)
    assert stats.beta.mean(alpha, beta) == pytest.approx(mean, rel=1e-9)
    assert stats.beta.var(alpha, beta) == pytest.approx(variance, rel=1e-6)


@given(st.lists(st.tuples(estimates, rewards), max_size=30), estimates, st.floats(0.0, 1.0))
@settings(deadline=None)
def test_the_posterior_is_a_probability_whatever_was_seen(rounds, theta, mu):
    assert 0.0 <= believed(filled(rounds), theta, mu) <= 1.0


def test_the_posterior_is_bayes_rule_with_scipys_densities():
    right, wrong, theta, mu = [0.55, 0.7, 0.8, 0.9], [0.1, 0.35, 0.5], 0.6, 0.7
    sums = filled([(q, 1.0) for q in right] + [(q, 0.0) for q in wrong])

    def density(sample):
        mean, variance = np.mean(sample), np.var(sample)
        nu = mean * (1.0 - mean) / variance - 1.0
        return stats.beta.pdf(theta, mean * nu, (1.0 - mean) * nu)

    expected = mu * density(right) / (mu * density(right) + (1.0 - mu) * density(wrong))
    assert believed(sums, theta, mu) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    "rounds",
    [
        [],
        [(0.2, 1.0), (0.6, 1.0), (0.4, 0.0)],
        [(0.4, 1.0), (0.2, 0.0), (0.6, 0.0)],
        [(0.2, 1.0), (0.6, 1.0), (0.7, 0.0), (0.7, 0.0)],
        [(0.0, 1.0), (0.0, 1.0), (0.3, 0.0), (0.7, 0.0)],
    ],
    ids=["nothing", "one wrong", "one right", "wrong without spread", "all at zero"],
)
def test_without_two_spread_observations_in_each_class_the_posterior_is_mu(rounds):
    assert believed(filled(rounds), 0.35, 0.6) == pytest.approx(0.6, abs=1e-15)


def test_shares_of_rounds_are_observations_once_they_add_up_to_two():
    sums = filled([(0.2, 1.0), (0.6, 1.0), (0.3, 0.1), (0.7, 0.1)])
    assert sums.wrong.n < 2.0
    assert believed(sums, 0.35, 0.6) == pytest.approx(0.6, abs=1e-15)
    sums.add(0.5, 0.5, +1)
    assert believed(sums, 0.35, 0.6) != pytest.approx(0.6, abs=1e-6)


@pytest.mark.parametrize("q", [0.7, 0.3, 1.0 / 3.0, 0.9999])
def test_thousands_of_equal_estimates_have_no_spread(q):
    sums = filled([(0.2, 1.0), (0.6, 1.0)] + [(q, 0.0)] * 5000)
    assert believed(sums, 0.35, 0.6) == pytest.approx(0.6, abs=1e-15)


@pytest.mark.parametrize("mu", [0.0, 1.0])
def test_a_certain_prior_stays_certain(mu):
    sums = filled([(0.2, 1.0), (0.6, 1.0), (0.3, 0.0), (0.7, 0.0)])
    assert believed(sums, 0.5, mu) == mu


def test_many_estimates_at_once_are_as_one_by_one():
    arms = [filled([(0.8, 1.0), (0.9, 1.0), (0.1, 0.0), (0.2, 0.0)]), filled([(0.5, 1.0)]), filled([])]
    theta, mu = np.random.default_rng(0).uniform(-0.2, 1.2, size=(5, 3)), np.array([0.7, 1.0, 0.5])
    probabilities = posterior(theta, mu, np.array([sums.evidence() for sums in arms]).T)
    expected = [[believed(*arm) for arm in zip(arms, row, mu, strict=True)] for row in theta]
    assert probabilities.tolist() == expected


@pytest.mark.parametrize("theta", [0.0, 1.0, -3.0, 4.0])
def test_the_posterior_at_the_ends_of_the_interval_is_finite(theta):
    sums = filled([(0.8, 1.0), (0.9, 1.0), (0.1, 0.0), (0.2, 0.0)])
    assert believed(sums, theta, 0.5) == pytest.approx(float(theta > 0.5), abs=1e-3)


def test_the_posterior_need_not_rise_with_theta():
    sums = filled([(0.49, 1.0), (0.51, 1.0), (0.1, 0.0), (0.9, 0.0)])
    assert believed(sums, 0.5, 0.5) > 0.9
    assert believed(sums, 0.95, 0.5) < 0.1


@given(st.lists(st.tuples(estimates, st.floats(0.0, 1.0)), max_size=20), estimates, st.floats(0.0, 1.0))
@settings(deadline=None)
def test_withdrawing_a_round_restores_the_sums(rounds, q, reward):
    sums, before = filled(rounds), filled(rounds).to_list()
    sums.add(q, reward, +1)
    sums.add(q, reward, -1)
    np.testing.assert_allclose(sums.to_list(), before, rtol=0.0, atol=1e-9)


def test_a_fractional_reward_counts_in_both_classes():
    sums = filled([(0.5, 0.25)])
    assert (sums.correct.n, sums.wrong.n) == (0.25, 0.75)
    assert sums.wrong.log_q == pytest.approx(0.75 * math.log(0.5))


def test_an_estimate_outside_the_interval_is_clipped_where_it_is_summed():
    sums = filled([(1.7, 1.0), (-0.3, 0.0)])
    assert (sums.correct.q, sums.correct.log_complement) == (1.0, pytest.approx(math.log(EPSILON)))
    assert (sums.wrong.q, sums.wrong.log_q) == (0.0, pytest.approx(math.log(EPSILON)))


@pytest.mark.parametrize("reward", [-0.1, 1.1, math.nan])
def test_a_reward_outside_the_interval_is_refused(reward):
    with pytest.raises(InvalidParameterError, match="reward"):
        BetaSums().add(0.5, reward, +1)


@given(st.lists(st.tuples(estimates, rewards), max_size=10))
@settings(deadline=None)
def test_the_ten_sums_survive_a_list(rounds):
    assert BetaSums.from_list(filled(rounds).to_list()) == filled(rounds)
