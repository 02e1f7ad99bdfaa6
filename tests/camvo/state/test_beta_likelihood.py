from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import digamma

from camvo.errors import InvalidParameterError
from camvo.numerics.small import EPSILON
from camvo.policies.camvo import CaMVo
from camvo.policies.ensemble import Ensemble
from camvo.policies.policy import Observation
from camvo.state.arm import _NO_BETA_SPREAD, BetaSums, _ClassSums, _fit_beta, posterior
from camvo.state.contribution import Change, Contribution
from camvo.state.state import State

estimates = st.floats(0.0, 1.0)
samples = st.lists(estimates, min_size=2, max_size=40)


def estimated(observation, arms, **parameters):
    return Ensemble(**parameters).estimate(observation, arms)


def summed(qs):
    sums = _ClassSums()
    for q in qs:
        sums.add(float(q), 1.0)
    return sums


def spread(qs):
    """Whether the sample varies by more than what both estimators clip."""
    return np.var(qs) > 1.01 * EPSILON


@pytest.mark.parametrize("shape", [(4.0, 2.0), (0.4, 0.7), (60.0, 9.0), (1.0, 1.0), (0.2, 30.0)])
def test_the_estimate_is_scipys(shape):
    qs = np.clip(np.random.default_rng(3).beta(*shape, size=400), EPSILON, 1.0 - EPSILON)
    alpha, beta, _, _ = stats.beta.fit(qs, floc=0.0, fscale=1.0)
    assert summed(qs).likeliest() == pytest.approx((alpha, beta), rel=1e-6)


@given(samples)
@settings(deadline=None)
def test_the_score_equations_of_appendix_b_hold(qs):
    assume(spread(qs))
    alpha, beta = summed(qs).likeliest()
    inside = np.clip(qs, EPSILON, 1.0 - EPSILON)
    shared = digamma(alpha + beta)
    assert np.mean(np.log(inside)) - (digamma(alpha) - shared) == pytest.approx(0.0, abs=1e-9)
    assert np.mean(np.log1p(-inside)) - (digamma(beta) - shared) == pytest.approx(0.0, abs=1e-9)


@given(samples, st.floats(0.5, 2.0), st.floats(0.5, 2.0))
@settings(deadline=None)
def test_no_other_distribution_has_a_higher_likelihood(qs, factor, other):
    assume(spread(qs))
    alpha, beta = summed(qs).likeliest()
    inside = np.clip(qs, EPSILON, 1.0 - EPSILON)
    best = stats.beta.logpdf(inside, alpha, beta).sum()
    assert stats.beta.logpdf(inside, factor * alpha, other * beta).sum() <= best + 1e-6


def test_newtons_method_converges_on_every_kind_of_sample():
    rng = np.random.default_rng(0)
    for case in range(2000):
        n = int(rng.choice([2, 3, 10, 300]))
        drawn = [
            rng.beta(*10.0 ** rng.uniform(-1.5, 5.0, size=2), n),
            rng.normal(rng.random(), 10.0 ** rng.uniform(-3.0, 0.3), n),
            rng.choice([0.0, 1.0, rng.random()], n),
        ][case % 3]
        qs = np.clip(drawn, EPSILON, 1.0 - EPSILON)
        if spread(qs):
            assert _fit_beta(float(np.log(qs).mean()), float(np.log1p(-qs).mean())) is not None


@given(samples, st.floats(0.1, 50.0))
@settings(deadline=None)
def test_swapping_q_and_its_complement_swaps_the_parameters(qs, weight):
    assume(spread(qs))
    sums, mirrored = _ClassSums(), _ClassSums()
    for q in qs:
        sums.add(q, weight)
        mirrored.add(1.0 - q, weight)
    assume(sums.n >= 2.0)
    alpha, beta = sums.likeliest()
    assert mirrored.likeliest() == pytest.approx((beta, alpha), rel=1e-5)


@pytest.mark.parametrize(
    "qs", [[], [0.3], [0.7] * 5000, [0.0, 0.0, 0.0]], ids=["nothing", "one", "equal", "all at zero"]
)
def test_without_two_spread_observations_there_is_no_estimate(qs):
    assert summed(qs).likeliest() is None


@pytest.mark.parametrize("width", [2e-6, 5e-4])
def test_a_variance_below_epsilon_is_left_to_the_moments_which_clip_it(width):
    sums = summed([0.5 - width, 0.5 + width] * 3)
    assert _NO_BETA_SPREAD < width**2 < EPSILON
    assert sums.likeliest() == sums.moments()


def test_statistics_that_no_sample_can_have_are_left_to_the_moments():
    sums = summed([0.2, 0.6, 0.7])
    sums.log_q = 3.0 * math.log(0.8)
    sums.log_complement = 3.0 * math.log(0.7)
    assert sums.likeliest() == sums.moments()


@given(st.lists(estimates, min_size=3, max_size=20), estimates)
@settings(deadline=None)
def test_a_withdrawn_observation_leaves_the_estimate_as_it_was(qs, q):
    assume(np.var(qs) > 1e-3)
    sums = summed(qs)
    before = sums.likeliest()
    sums.add(q, 1.0)
    sums.likeliest()
    sums.add(q, -1.0)
    assert sums.likeliest() == pytest.approx(before, rel=1e-5)


def test_estimating_leaves_the_sums_and_their_snapshot_alone():
    sums = BetaSums()
    for q, reward in ((0.8, 1.0), (0.6, 1.0), (0.3, 0.0), (0.4, 0.0)):
        sums.add(q, reward, +1)
    before = sums.to_list()
    sums.evidence("mle")
    assert sums.to_list() == before
    assert BetaSums.from_list(before) == sums


def test_the_posterior_is_bayes_rule_with_the_densities_that_scipy_fits():
    right, wrong, theta, mu = [0.55, 0.7, 0.8, 0.9], [0.1, 0.35, 0.5], 0.6, 0.7
    sums = BetaSums()
    for q in right:
        sums.add(q, 1.0, +1)
    for q in wrong:
        sums.add(q, 0.0, +1)

    def density(sample):
        return stats.beta.pdf(theta, *stats.beta.fit(sample, floc=0.0, fscale=1.0)[:2])

    expected = mu * density(right) / (mu * density(right) + (1.0 - mu) * density(wrong))
    _fit_beta, moments = (
        posterior(np.array([theta]), np.array([mu]), np.array([sums.evidence(estimator)]).T)[0]
        for estimator in ("mle", "moments")
    )
    assert _fit_beta == pytest.approx(expected, rel=1e-5)
    assert _fit_beta != moments


def taught():
    state = State(2)
    for q, reward in ((0.9, 1.0), (0.7, 1.0), (0.75, 1.0), (0.2, 0.0), (0.6, 0.0)):
        state.add(Contribution(np.array([1.0, 0.0]), (Change("a", q, None, reward),)))
    return state


def test_the_estimator_of_the_policy_reaches_the_estimates():
    observation = Observation(taught(), np.array([1.0, 0.5]), ("yes", "no"))
    for name in ("moments", "mle"):
        planned = CaMVo(estimator=name).plan({"q": observation}, {"a": 1.0}).estimates["q"]
        direct = estimated(observation, ["a"], alpha=0.25, lambda_r=1.0, estimator=name)
        assert planned.lower.tolist() == direct.lower.tolist()
    moments = estimated(observation, ["a"], alpha=0.25, lambda_r=1.0)
    assert direct.lower[0] != moments.lower[0]
    assert direct.correctness[0] != moments.correctness[0]


def test_an_estimator_that_does_not_exist_is_refused():
    with pytest.raises(InvalidParameterError, match="estimator"):
        CaMVo(estimator="bayes")
