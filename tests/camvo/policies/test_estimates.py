from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camvo.errors import InvalidParameterError
from camvo.policies.ensemble import Ensemble
from camvo.policies.policy import Observation
from camvo.state.contribution import Change, Contribution
from camvo.state.state import State

LABELS = ("yes", "no")
EAST, NORTH = np.array([1.0, 0.0]), np.array([0.0, 1.0])


def taught(*rounds, dimension=2):
    """A state that saw rounds of (context, {arm: reward}); the estimates at planning time are ½."""
    state = State(dimension)
    for context, rewards in rounds:
        state.add(Contribution(context, tuple(Change(arm, 0.5, None, r) for arm, r in rewards.items())))
    return state


def observation(state, context=EAST, labels=LABELS):
    return Observation(state, context, labels)


def test_an_arm_without_history_has_q_0_mu_1_and_a_lower_bound_of_one_half():
    estimates = Ensemble(alpha=0.25, lambda_r=1.0).estimate(observation(State(2)), ["new"])
    assert (estimates.rewards[0], estimates.q[0], estimates.agreement[0], estimates.weights[0]) == (
        0.0,
        0.0,
        1.0,
        0.0,
    )
    assert estimates.lower[0] == 0.5


@pytest.mark.parametrize(
    ("labels", "expected"), [(("yes", "no"), 0.75), (("a", "b", "c", "d"), 0.625), (("a",), 1.0)]
)
def test_the_correctness_of_an_arm_without_history_is_half_way_between_chance_and_1(labels, expected):
    estimates = Ensemble(alpha=0.25, lambda_r=1.0).estimate(observation(State(2), labels=labels), ["new"])
    assert estimates.correctness[0] == expected


def test_correctness_is_agreement_smoothed_by_two_rewards():
    state = taught((EAST, {"a": 1.0}), (EAST, {"a": 1.0}), (NORTH, {"a": 0.0}))
    estimates = Ensemble(alpha=0.25, lambda_r=1.0).estimate(observation(state), ["a"])
    assert estimates.correctness[0] == pytest.approx((2.0 + 2.0 * 0.75) / (3.0 + 2.0), abs=1e-15)


def test_the_width_lowers_the_bound_and_not_the_correctness():
    state = State(2)
    for q, reward in ((0.6, 1.0), (0.9, 1.0), (0.1, 0.0), (0.4, 0.0)):
        state.add(Contribution(EAST, (Change("a", q, None, reward),)))
    narrow, wide = (
        Ensemble(alpha=alpha, lambda_r=1.0).estimate(observation(state), ["a"]) for alpha in (0.0, 0.5)
    )
    assert wide.lower[0] < narrow.lower[0]
    assert wide.correctness[0] == narrow.correctness[0]


def test_the_regularisation_is_line_9_with_the_rewards_of_the_arm_and_all_rounds():
    lonely = (EAST, {})
    state = taught((EAST, {"a": 1.0}), (NORTH, {"a": 1.0}), (EAST, {"a": 0.0}), lonely, lonely)
    estimates = Ensemble(alpha=0.25, lambda_r=0.7).estimate(observation(state), ["a"])
    # One wrong round only, so Est = μ = 2/3; five rounds are over, so t = 6 and the mass is 0.7 · ln 7.
    mass = 0.7 * math.log(7.0)
    assert estimates.lower[0] == pytest.approx((2.0 / 3.0 * 3.0 + mass / 2.0) / (3.0 + mass), abs=1e-15)


def test_rounds_of_one_vote_count_in_t():
    fewer = taught((EAST, {"a": 1.0}), (EAST, {"a": 1.0}))
    more = taught((EAST, {"a": 1.0}), (EAST, {"a": 1.0}), (EAST, {}))
    lower = [
        Ensemble(alpha=0.25, lambda_r=1.0).estimate(observation(state), ["a"]).lower[0]
        for state in (fewer, more)
    ]
    assert lower[1] < lower[0]


def test_without_regularisation_the_lower_bound_is_the_estimate():
    state = taught((EAST, {"a": 1.0}), (EAST, {"a": 0.0}))
    estimates = Ensemble(alpha=0.25, lambda_r=0.0).estimate(observation(state), ["a", "new"])
    assert estimates.lower.tolist() == [0.5, 0.5]


def test_an_estimate_above_1_is_a_weight_of_at_most_mu_and_stays_unclipped_in_q():
    state = taught(*[(EAST, {"a": 1.0})] * 20)
    estimates = Ensemble(alpha=0.0, lambda_r=1.0).estimate(observation(state, 1.5 * EAST), ["a"])
    assert estimates.q[0] == pytest.approx(1.5 * 20.0 / 21.0, abs=1e-12)
    assert estimates.weights[0] == 1.0


def test_an_estimate_below_0_is_a_weight_of_0():
    state = taught((EAST, {"a": 1.0}), (EAST, {"a": 1.0}))
    estimates = Ensemble(alpha=0.25, lambda_r=1.0).estimate(observation(state, -EAST), ["a"])
    assert estimates.q[0] == pytest.approx(-2.0 / 3.0)
    assert estimates.weights[0] == 0.0


@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_an_arm_that_was_never_or_always_right_has_finite_estimates(reward):
    state = taught(*[(EAST, {"a": reward})] * 5)
    estimates = Ensemble(alpha=0.25, lambda_r=1.0).estimate(observation(state), ["a"])
    smoothing = math.log(7.0)
    assert estimates.lower[0] == pytest.approx((5.0 * reward + smoothing / 2.0) / (5.0 + smoothing))
    assert estimates.weights[0] == pytest.approx(reward * 5.0 / 6.0)


def test_a_withdrawn_history_is_no_history():
    state = taught((EAST, {"a": 1.0}))
    state.add(Contribution(EAST, (Change("a", 0.5, 1.0, None),), rounds=-1))
    estimates, fresh = (
        Ensemble(alpha=0.25, lambda_r=1.0).estimate(observation(s), ["a"]) for s in (state, State(2))
    )
    for column in ("rewards", "agreement", "q", "lower", "weights", "correctness"):
        assert getattr(estimates, column).tolist() == getattr(fresh, column).tolist()


def test_estimating_changes_nothing_in_the_state():
    state = taught((EAST, {"a": 1.0}), (NORTH, {"a": 0.0}))
    before = state.snapshot()
    Ensemble(alpha=0.25, lambda_r=1.0).estimate(observation(state), ["a", "new"])
    assert state.snapshot() == before


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 5.0), st.floats(0.0, 5.0))
@settings(deadline=None, max_examples=40)
def test_lower_bound_and_correctness_are_probabilities_and_the_weight_is_between_0_and_mu(
    seed, alpha, lambda_r
):
    rng = np.random.default_rng(seed)
    state = State(3)
    for _ in range(int(rng.integers(30))):
        changes = [Change(arm, float(rng.normal(0.5)), None, float(rng.integers(2))) for arm in "abc"]
        state.add(Contribution(3.0 * rng.normal(size=3), tuple(changes)))
    estimates = Ensemble(alpha=alpha, lambda_r=lambda_r).estimate(
        observation(state, 3.0 * rng.normal(size=3)), ["a", "b", "c", "d"]
    )
    for column in (estimates.lower, estimates.correctness):
        assert np.all((column >= 0.0) & (column <= 1.0))
    assert np.all((estimates.weights >= 0.0) & (estimates.weights <= estimates.agreement))


@pytest.mark.parametrize(
    ("context", "labels"),
    [
        (np.ones(3), LABELS),
        (np.ones((2, 1)), LABELS),
        (EAST, ()),
        (np.array([np.nan, 0.0]), LABELS),
        (np.array([np.inf, 0.0]), LABELS),
    ],
    ids=["dimension", "matrix", "no label", "nan", "infinite"],
)
def test_an_observation_that_makes_no_sense_is_refused(context, labels):
    with pytest.raises(InvalidParameterError):
        Ensemble(alpha=0.25, lambda_r=1.0).estimate(Observation(State(2), context, labels), ["a"])
