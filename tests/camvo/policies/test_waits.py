"""A slow arm: what waiting for it is worth counts where arms are chosen, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
from made_up_votes import draw_votes

from camvo.errors import InvalidParameterError
from camvo.policies.camvo import CaMVo
from camvo.policies.ensemble import Baseline, Majority
from camvo.policies.joint import Joint
from camvo.policies.policy import Conditions, Observation
from camvo.state.contribution import Change, Contribution
from camvo.state.state import State

LABELS = ("neg", "neutral", "other", "pos")
PRICES = {"a": 4.0, "b": 1.0, "c": 0.5, "slow": 0.0}
FULL = sum(PRICES.values())
ACCURACY = np.array([0.95, 0.85, 0.8, 0.9])
IDLE = {"slow": 0.0}
DEAR = {"slow": 4.0 * FULL}


def observed(state, number=0):
    return {"q": Observation(state, np.array([1.0, 0.0]), LABELS, task=f"task {number}")}


def run(waits, rounds=400, prices=PRICES, policy=None):
    """The plans of some rounds, whom they asked, and the state that they leave."""
    policy, state = policy or Joint(), State(2)
    votes, _ = draw_votes(ACCURACY, labels=len(LABELS), items=rounds)
    plans, asked = [], []
    for number, row in enumerate(votes.tolist()):
        plan = policy.plan(observed(state, number), prices, Conditions(waits=waits))
        said = {arm: {"q": LABELS[vote]} for arm, vote in zip(sorted(prices), row, strict=True)}
        taken = {}
        while arms := policy.ask(plan, taken):
            taken |= {arm: said[arm] for arm in arms}
        label = policy.decide(plan, taken)["q"].label
        state.add(policy.contribution(plan, "q", taken, label))
        plans.append(plan)
        asked.append(set(taken))
    return plans, asked, state


@pytest.fixture(scope="module")
def free():
    return run({})


@pytest.fixture(scope="module")
def waited():
    return run(DEAR)


def share(asked, arm="slow"):
    return sum(arm in arms for arms in asked) / len(asked)


def explored(plans):
    return [number for number, plan in enumerate(plans) if plan.stages.exploration == "everyone"]


def test_a_free_arm_is_asked_often_and_hardly_ever_if_the_wait_is_dear(free, waited):
    assert share(free[1]) > 0.5
    assert share(waited[1]) < 0.15


def test_rounds_that_ask_everyone_spare_it_so_often_that_the_wait_costs_what_asking_does(waited):
    plans, asked, _ = waited
    with_it = [number for number in explored(plans) if "slow" in asked[number]]
    assert len(with_it) / len(explored(plans)) == pytest.approx(FULL / DEAR["slow"], abs=0.1)


def test_the_others_are_explored_as_often_as_without_it(free, waited):
    assert len(explored(waited[0])) == pytest.approx(len(explored(free[0])), rel=0.2)


def test_a_round_that_spared_it_is_evidence_about_the_others(waited):
    plans, _, state = waited
    sums = state.exploration
    assert sums.everyone_rounds(["a", "b", "c"]) == len(explored(plans))
    assert 0 < sums.everyone_rounds(PRICES) < 0.5 * len(explored(plans))


def test_a_vote_that_votes_asked_for_is_no_evidence_in_a_round_that_spared_its_arm(waited):
    plans, asked, _ = waited
    plan = next(plans[number] for number in explored(plans) if "slow" not in asked[number])
    votes = {arm: {"q": "pos"} for arm in PRICES}
    without, asked_later = (
        Joint().contribution(plan, "q", cast, "pos").exploration
        for cast in ({arm: votes[arm] for arm in "abc"}, votes)
    )
    assert asked_later == without
    assert asked_later.pattern.everyone


def test_an_idle_arm_is_asked_by_every_round_that_asks_everyone(waited):
    state = waited[2]
    plans = [Joint().plan(observed(state, n), PRICES, Conditions(waits=IDLE)) for n in range(300)]
    assert all(set(plans[number].subset) == set(PRICES) for number in explored(plans))
    assert 0 < len(explored(plans)) < 100


def test_a_wait_is_no_part_of_a_plans_costs_and_makes_the_other_arms_no_cheaper(free):
    state = free[2]
    plain = Joint().plan(observed(state), PRICES)
    slow = Joint().plan(observed(state), PRICES, Conditions(waits=DEAR))
    assert slow.costs.tolist() == plain.costs.tolist()
    others = {arm: price for arm, price in slow.stages.prices.items() if arm != "slow"}
    assert others == {arm: plain.stages.prices[arm] for arm in others}
    assert slow.stages.prices["slow"] > plain.stages.prices["slow"]


def test_a_pilot_asks_the_slow_arm_too(waited):
    for number in range(50):
        conditions = Conditions(everyone=True, waits=DEAR)
        plan = Joint().plan(observed(waited[2], number), PRICES, conditions)
        assert set(plan.subset) == set(PRICES)


def test_where_an_agreement_is_required_nothing_is_spared(waited):
    policy = Joint(agreement=0.9)
    for number in range(50):
        plan = policy.plan(observed(waited[2], number), PRICES, Conditions(waits=DEAR))
        assert plan.stages.exploration == "nobody" or set(plan.subset) == set(PRICES)
    slow, plain = (policy.plan(observed(waited[2]), PRICES, Conditions(waits=waits)) for waits in (DEAR, {}))
    assert slow.stages.prices == plain.stages.prices


def test_only_a_policy_that_weighs_votes_by_their_price_spares_slow_arms():
    assert Joint().spares
    assert not any(policy.spares for policy in (Joint(agreement=0.9), CaMVo(), Majority(), Baseline()))


def test_among_free_arms_a_wait_counts_as_a_share_of_all_waits():
    prices = dict.fromkeys(PRICES, 0.0)
    plans = [
        Joint().plan(observed(State(2)), prices, Conditions(waits={"slow": wait})) for wait in (1e-6, 1e3)
    ]
    assert plans[0].stages.prices == plans[1].stages.prices
    assert plans[0].stages.prices["slow"] > plans[0].stages.prices["a"] > 0.0


def test_a_scarce_budget_does_not_make_waits_dearer(free):
    """An allowance limits money: a free arm does not help to keep to it."""
    state, wait = free[2], {"slow": 0.02 * FULL}
    scarce, ample = (
        Joint().plan(observed(state), PRICES, Conditions(waits=wait, allowance=allowance))
        for allowance in (0.05, np.inf)
    )
    assert scarce.stages.prices["a"] > 1.5 * ample.stages.prices["a"]
    assert scarce.stages.prices["slow"] == pytest.approx(ample.stages.prices["slow"])


@pytest.mark.parametrize("wait", [-1.0, float("nan"), float("inf")])
def test_a_wait_is_finite_and_not_negative(wait):
    with pytest.raises(InvalidParameterError, match="slow"):
        Conditions(waits={"slow": wait})


def test_the_oracle_prefers_a_paid_arm_to_one_that_others_wait_for():
    state, policy = State(2), CaMVo(delta=0.8, k_min=1, confidence="exact", n0=5)
    for _ in range(20):
        changes = tuple(Change(arm, 0.5, None, 1.0) for arm in PRICES)
        state.add(Contribution(np.array([1.0, 0.0]), changes))
    plain, slow = (
        policy.plan(observed(state), PRICES, Conditions(waits=waits)).subset for waits in ({}, DEAR)
    )
    assert plain == ("slow",)
    assert slow == ("c",)
