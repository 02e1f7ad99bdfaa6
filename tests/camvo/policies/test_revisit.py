"""Which past rounds the paper's policy asks about again, whom it asks, and when it stops."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lemma_1 import confidence_by_lemma_1

import camvo
from camvo.policies.camvo import CaMVo, CCaMVo
from camvo.policies.ensemble import Ensemble
from camvo.policies.past_rounds import _NOTHING, PastRound, further_policy
from camvo.policies.policy import Observation
from camvo.state.contribution import Change, Contribution
from camvo.state.state import State
from camvo.subsets.confidence import BetaConfidence
from camvo.votes.numbers import NumericVote

LABELS = ("yes", "no")
EAST = np.array([1.0, 0.0])
PRICES = {"large": 5.0, "medium": 2.0, "small": 1.0, "tiny": 0.5}
FULL = sum(PRICES.values())
POLICY = CaMVo(delta=0.8, k_min=1, confidence="exact", n0=5)


def taught(rewards, rounds=20):
    """A state in which each arm was right in its share of ``rounds`` rounds, all with the context east."""
    state = State(2)
    for position in range(rounds):
        changes = (Change(arm, 0.5, None, float(position < share * rounds)) for arm, share in rewards.items())
        state.add(Contribution(EAST, tuple(changes)))
    return state


KNOWN = taught({"large": 1.0, "medium": 0.9, "small": 0.6, "tiny": 0.6})


def further(votes, state=KNOWN, policy=POLICY, **named):
    past = PastRound(EAST, votes, named.pop("labels", LABELS), named.pop("costs", PRICES), **named)
    return further_policy(policy).further_votes(state, past)


def plan_of(policy, *questions, state=KNOWN, prices=PRICES):
    return policy.plan({name: Observation(state, EAST, LABELS) for name in questions}, prices)


def test_where_models_turned_out_poor_the_cheapest_that_suffice_are_asked():
    assert further({"small": "yes", "tiny": "no"}).arms == ("medium",)


def test_a_round_that_is_confident_enough_today_is_not_asked_about():
    assert further({"large": "yes", "medium": "yes"}) == _NOTHING


def test_the_same_round_is_in_doubt_or_not_depending_on_the_state():
    early, late = taught({"small": 0.9, "tiny": 0.9}, 10), taught({"small": 0.6, "tiny": 0.6}, 40)
    late.add(Contribution(EAST, ()), *[Contribution(EAST, (Change("large", 0.5, None, 1.0),))] * 20)
    policy = CaMVo(delta=0.6, k_min=1, confidence="exact", n0=5)
    assert further({"small": "yes", "tiny": "yes"}, early, policy) == _NOTHING
    assert further({"small": "yes", "tiny": "yes"}, late, policy).arms == ("large",)


def test_the_value_is_the_rise_of_the_confidence_up_to_delta_per_share_of_the_price():
    plan, votes = plan_of(POLICY, "q"), {"small": {"q": "yes"}, "tiny": {"q": "no"}}
    asked = further({"small": "yes", "tiny": "no"})
    after = POLICY.confidence_in(plan, {**votes, "medium": {"q": "no"}})
    assert after > POLICY.delta
    gain = POLICY.delta - POLICY.confidence_in(plan, votes)
    assert asked.break_even == pytest.approx(gain / (PRICES["medium"] / FULL))


def test_the_least_confident_of_two_rounds_that_lack_the_same_model_comes_first():
    assert further({"tiny": None, "small": None}).break_even > further({"small": "yes"}).break_even


def test_a_model_that_gave_no_vote_is_not_asked_again():
    assert set(further({"small": "yes", "medium": None}).arms) == {"large"}


def test_if_all_models_were_asked_none_is_left():
    assert further(dict.fromkeys(PRICES, "no"), taught(dict.fromkeys(PRICES, 0.6))) == _NOTHING


def test_a_vote_that_cannot_raise_the_confidence_is_not_asked_for():
    assert further({"small": "yes"}, taught({"small": 0.6}), costs={"small": 1.0, "new": 1.0}) == _NOTHING


def test_the_votes_of_a_model_that_left_the_pool_do_not_count():
    votes = {"large": "yes", "small": "no"}
    assert further(votes) == _NOTHING
    assert further(votes, costs={"medium": 2.0, "small": 1.0}).arms == ("medium",)


def test_with_delta_0_nothing_is_in_doubt():
    assert further({"large": None}, policy=CaMVo(delta=0.0, k_min=1)) == _NOTHING


def test_a_model_without_a_price_has_a_finite_value():
    assert 0.0 < further({"small": "yes"}, costs={"small": 1.0, "medium": 0.0}).break_even < np.inf


def test_looking_for_doubt_does_not_change_the_state():
    state = taught({"large": 1.0, "small": 0.6})
    before = state.snapshot()
    further({"small": "yes"}, state)
    assert state.snapshot() == before


def test_a_number_is_revisited_like_a_label():
    votes = {"small": "3", "tiny": "9"}
    assert further(votes, labels=(), aggregation=NumericVote(0.0, 10.0)).arms == ("medium",)


def test_asking_goes_on_until_the_votes_reach_delta():
    policy = further_policy(CaMVo(delta=0.9, k_min=1, confidence="exact", n0=5))
    plan, votes = plan_of(policy, "q"), {"tiny": {"q": "yes"}}
    while arms := policy.ask(plan, votes):
        assert policy.confidence_in(plan, votes) < policy.delta
        votes |= {arm: {} if arm == "medium" else {"q": "yes"} for arm in arms}
    assert policy.confidence_in(plan, votes) >= policy.delta


def test_a_vote_far_dearer_than_a_right_label_is_passed_over():
    policy = further_policy(POLICY)
    plan, votes = plan_of(policy, "q"), {"small": {"q": "yes"}, "tiny": {"q": "no"}}
    arms, gain = policy.lacking(plan, votes)
    worth = PRICES["medium"] / gain
    assert policy.policy_for(worth).ask(plan, votes) == policy.policy_for(worth / 5).ask(plan, votes) == arms
    assert policy.policy_for(worth / 20).ask(plan, votes) == ()


def test_the_gains_of_a_tasks_questions_add_up_and_what_is_certain_adds_none():
    policy = further_policy(POLICY)
    plan = plan_of(policy, "one", "two")
    doubtful = {arm: dict.fromkeys(("one", "two"), "yes") for arm in ("small", "tiny")}
    half = {**doubtful, "large": {"one": "yes"}}
    single = policy.lacking(plan_of(policy, "one"), {arm: {"one": "yes"} for arm in doubtful})
    assert policy.lacking(plan, doubtful) == (single[0], pytest.approx(2.0 * single[1]))
    assert policy.lacking(plan, half) == (single[0], pytest.approx(single[1]))


def test_ccamvo_keeps_its_correlations():
    policy = further_policy(CCaMVo(delta=0.8, k_min=1, n0=5))
    assert policy.correlated
    assert further({"small": "yes"}, policy=CCaMVo(delta=0.8, k_min=1, n0=5)).arms == ("medium",)


def test_only_policies_with_a_measure_of_doubt_go_on():
    assert [further_policy(policy) is None for policy in (camvo.Joint(), POLICY, CCaMVo())] == [False] * 3
    assert further_policy(camvo.Majority()) is None


@pytest.mark.parametrize("name", ["exact", "beta"])
@given(seed=st.integers(0, 2**32 - 1), delta=st.sampled_from([0.5, 0.7, 0.9]), k_min=st.integers(1, 4))
@settings(deadline=None, max_examples=60)
def test_the_arms_are_the_cheapest_that_reach_delta_and_the_gain_is_lemma_1s(name, seed, delta, k_min):
    rng = np.random.default_rng(seed)
    arms = sorted(PRICES)
    state = State(2)
    for _ in range(rng.integers(5, 40)):
        changes = [Change(arm, rng.random(), None, float(rng.random() < 0.8)) for arm in arms]
        state.add(Contribution(EAST + 0.3 * rng.normal(size=2), tuple(changes)))
    votes = {arm: rng.choice([*LABELS, None]) for arm in arms if rng.random() < 0.6}
    policy = CaMVo(delta=delta, k_min=k_min, confidence=name, n0=5)
    known = Ensemble(alpha=0.25, lambda_r=1.0).estimate(Observation(state, EAST, LABELS), arms)
    voted = [arms.index(arm) for arm, vote in votes.items() if vote is not None]
    free = [position for position, arm in enumerate(arms) if arm not in votes]
    costs = {arm: float(price) for arm, price in zip(arms, rng.random(4) + 0.1, strict=True)}

    def reached(members):
        if not members:
            return 0.0
        if name == "beta":
            return BetaConfidence(known.lower, known.weights).confidence_of(members)
        return confidence_by_lemma_1(known.lower[members], known.weights[members])

    found = further(votes, state, policy, costs=costs)
    sets = chain.from_iterable(combinations(free, size) for size in range(len(free) + 1))
    prices = {
        asked: sum(costs[arms[position]] for position in asked)
        for asked in sets
        if len(voted) + len(asked) >= k_min and reached([*voted, *asked]) >= delta
    }
    best = min(prices, key=prices.get) if prices else tuple(free)
    gain = min(reached([*voted, *best]), delta) - min(reached(voted), delta)
    if gain <= 1e-9:
        assert found == _NOTHING
        return
    assert found.arms == tuple(arms[position] for position in best)
    share = sum(costs[arm] for arm in found.arms) / sum(costs.values())
    assert found.break_even == pytest.approx(gain / share, abs=1e-9)
