from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lemma_1 import confidence_by_lemma_1
from scipy import stats

from camvo.errors import InvalidParameterError
from camvo.policies.camvo import CaMVo, CCaMVo
from camvo.policies.policy import Observation
from camvo.state.contribution import Change, Contribution
from camvo.state.state import State
from camvo.subsets.confidence import (
    _SAMPLES,
    _STREAMS,
    Copula,
    CopulaConfidence,
)
from camvo.subsets.oracle import cheapest_subset

seeds = st.integers(0, 2**32 - 1)


def equicorrelated(k, rho):
    return np.full((k, k), rho) + (1.0 - rho) * np.eye(k)


def majority(sets, right, weights):
    """The share of samples that a set wins, counted sample by sample."""
    return np.array([((2.0 * right - 1.0) @ (row * weights) > 1e-12).mean() for row in sets])


@given(seeds, st.integers(1, 14))
@settings(deadline=None, max_examples=40)
def test_the_confidence_is_the_share_of_samples_won(seed, k):
    rng = np.random.default_rng(seed)
    lower, weights = rng.uniform(0.2, 0.99, k), rng.choice([0.0, 0.5, 1.0, 0.7], k)
    copula = Copula(equicorrelated(k, 0.4), seed=3, samples=500)
    arms = rng.permutation(k)[: rng.integers(1, k + 1)].tolist()
    sets = rng.integers(0, 2, (20, len(arms))).astype(float)
    question = CopulaConfidence(lower, weights, copula, arms)
    reached = question.confidences(sets)
    expected = majority(sets, copula.sample_correctness(lower)[:, arms], weights[arms])
    np.testing.assert_allclose(reached, expected, atol=1e-12)
    assert np.all((reached >= 0.0) & (reached <= 1.0))
    assert reached.max() <= question.upper_bound() + 1e-12
    assert question.confidence_of(np.flatnonzero(sets[0]).tolist()) == reached[0]


def test_the_samples_have_the_marginals_of_the_arms():
    lower = np.array([0.0, 0.3, 0.8, 0.97, 1.0])
    right = Copula(equicorrelated(5, 0.5)).sample_correctness(lower)
    assert right.shape == (_SAMPLES, 5)
    np.testing.assert_allclose(right.mean(axis=0), lower, atol=0.025)
    assert not right[:, 0].any()
    assert right[:, 4].all()


@pytest.mark.parametrize("rho", [-0.4, 0.0, 0.3, 0.8])
def test_two_arms_are_right_together_as_often_as_the_bivariate_normal_says(rho):
    lower = np.array([0.8, 0.65])
    both = Copula(equicorrelated(2, rho), samples=40_000).sample_correctness(lower).all(axis=1).mean()
    expected = stats.multivariate_normal.cdf(stats.norm.ppf(lower), cov=equicorrelated(2, rho))
    assert both == pytest.approx(expected, abs=0.01)


def test_without_correlation_the_confidence_is_lemma_1_up_to_chance():
    rng = np.random.default_rng(0)
    lower, weights = rng.uniform(0.6, 0.95, 7), rng.random(7)
    sets = rng.integers(0, 2, (30, 7)).astype(float)
    reached = CopulaConfidence(lower, weights, Copula(np.eye(7), samples=40_000), range(7)).confidences(sets)
    for row, value in zip(sets > 0.0, reached, strict=True):
        assert value == pytest.approx(confidence_by_lemma_1(lower[row], weights[row]), abs=0.015)


def test_arms_that_err_together_are_worth_less_than_their_number():
    lower, weights, everyone = np.full(5, 0.8), np.ones(5), np.ones((1, 5))
    values = [
        CopulaConfidence(lower, weights, Copula(equicorrelated(5, rho)), range(5)).confidences(everyone)[0]
        for rho in (0.0, 0.5, 1.0)
    ]
    assert values[0] > values[1] + 0.03
    assert values[1] > values[2]
    assert values[2] == pytest.approx(0.8, abs=0.02)


def test_an_indefinite_matrix_is_replaced_by_the_nearest_correlation_matrix():
    impossible = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    right = Copula(impossible).sample_correctness(np.full(3, 0.7))
    np.testing.assert_allclose(right.mean(axis=0), 0.7, atol=0.03)


def test_the_same_seed_gives_the_same_samples_and_another_seed_others():
    lower = np.full(4, 0.7)
    first, again, other = (Copula(np.eye(4), seed).sample_correctness(lower) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_samples_do_not_depend_on_which_arms_are_searched():
    lower, weights = np.array([0.9, 0.6, 0.8, 0.7]), np.ones(4)
    copula = Copula(equicorrelated(4, 0.3))
    everyone = CopulaConfidence(lower, weights, copula, range(4))
    some = CopulaConfidence(lower, weights, copula, [3, 1])
    assert everyone.confidence_of([1, 3]) == some.confidence_of([0, 1])


def test_the_seed_of_a_round_depends_on_its_number_and_its_context():
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(50, 4))

    def seed(rounds, context):
        return Copula.of_round(np.eye(2), rounds, context).seed

    assert {seed(k, contexts[0]) for k in range(200)} == set(range(_STREAMS))
    assert len({seed(3, context) for context in contexts}) > _STREAMS // 2
    assert seed(3, contexts[0]) == seed(3, contexts[0].copy())


@given(seeds, st.integers(2, 9))
@settings(deadline=None, max_examples=25)
def test_the_oracle_finds_the_cheapest_set_by_brute_force(seed, k):
    rng = np.random.default_rng(seed)
    costs, lower, weights = rng.random(k), rng.uniform(0.5, 0.97, k), rng.random(k)
    copula = Copula(equicorrelated(k, 0.3), samples=400)
    chosen_set = cheapest_subset(costs, [(lower, weights)], 0.85, 2, confidence="copula", copulas=[copula])
    sets = (np.arange(2**k)[:, None] >> np.arange(k) & 1).astype(float)
    enough = (majority(sets, copula.sample_correctness(lower), weights) >= 0.85 - 1e-12) & (
        sets.sum(axis=1) >= 2
    )
    if not enough.any():
        assert chosen_set is None
        return
    winner = sets[enough][(sets[enough] @ costs).argmin()]
    assert chosen_set.arms == tuple(np.flatnonzero(winner))


def test_every_question_needs_its_copula():
    demand = (np.ones(2), np.ones(2))
    with pytest.raises(InvalidParameterError, match="copulas"):
        cheapest_subset(np.ones(2), [demand], 0.5, confidence="copula")


# The policy.

LABELS = ("yes", "no")
CONTEXT = np.array([1.0, 0.0])
PRICES = {"a": 1.0, "b": 1.1, "c": 1.2, "d": 6.0}


def learnt(shared, rounds=300):
    """a, b and c are right in 80% of the rounds, in the same ones (``shared``) or on their own; so is d."""
    rng = np.random.default_rng(0)
    state = State(2)
    for _ in range(rounds):
        right = rng.random(4) < 0.8
        if shared:
            right[:3] = right[0]
        state.add(
            Contribution(
                CONTEXT, tuple(Change(a, 0.5, None, float(r)) for a, r in zip("abcd", right, strict=True))
            )
        )
    return state


def plan_of(policy, state):
    return policy.plan({"q": Observation(state, CONTEXT, LABELS)}, PRICES)


def test_copies_of_one_model_do_not_make_a_plan_confident():
    parameters = {"delta": 0.85, "k_min": 1, "alpha": 0.0, "lambda_r": 0.0}
    independent, copies = learnt(False), learnt(True)
    assert plan_of(CCaMVo(**parameters), independent).subset == ("a", "b", "c")
    assert plan_of(CCaMVo(**parameters), copies).confidence is None
    assert plan_of(CaMVo(confidence="exact", **parameters), copies).subset == ("a", "b", "c")


def test_ccamvo_is_camvo_with_the_copula():
    state = learnt(False)
    assert json.dumps(plan_of(CCaMVo(delta=0.8), state).describe("q")) == json.dumps(
        plan_of(CaMVo(delta=0.8, confidence="copula"), state).describe("q")
    )


@given(seeds)
@settings(deadline=None, max_examples=10)
def test_the_same_state_and_context_give_the_same_plan(seed):
    rng = np.random.default_rng(seed)
    state = State(2)
    for _ in range(30):
        changes = tuple(Change(a, rng.random(), None, float(rng.random() < 0.8)) for a in "abcd")
        state.add(Contribution(rng.normal(size=2), changes))
    policy = CCaMVo(delta=0.8, k_min=1)
    plans = []
    for known, prices in (
        (state, PRICES),
        (State.restore(state.snapshot()), dict(reversed(PRICES.items()))),
    ):
        plan = policy.plan({"q": Observation(known, CONTEXT, LABELS)}, prices)
        plans.append(json.dumps(plan.describe("q")))
    assert plans[0] == plans[1]


def test_a_plan_keeps_the_correlation_it_was_made_with():
    state, policy = learnt(False), CCaMVo(delta=0.85, k_min=1)
    plan = plan_of(policy, state)
    votes = {arm: {"q": "yes"} if arm != plan.subset[0] else {} for arm in plan.subset}
    before = policy.ask(plan, votes)
    for _ in range(200):
        right = float(np.random.default_rng(1).random() < 0.5)
        state.add(Contribution(CONTEXT, tuple(Change(a, 0.5, None, right) for a in "abcd")))
    assert policy.ask(plan, votes) == before


def test_a_policy_without_the_copula_carries_no_correlation():
    assert plan_of(CaMVo(), learnt(False)).estimates["q"].copula is None


@pytest.mark.parametrize("budget", [0, -5])
def test_a_policy_needs_a_budget(budget):
    with pytest.raises(InvalidParameterError, match="budget"):
        CaMVo(budget=budget)


def test_a_search_that_gives_up_without_a_set_asks_all_arms_and_is_incomplete():
    plan = plan_of(CaMVo(delta=0.9999, n0=1, confidence="copula", budget=1), learnt(False))
    assert plan.subset == tuple(PRICES)
    assert plan.confidence is None
