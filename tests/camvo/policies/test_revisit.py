from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camvo.policies.camvo import CaMVo
from camvo.policies.estimates import Observation, estimate
from camvo.policies.past_rounds.revisit import PastRound, find_revisits
from camvo.state.contribution import Change, Contribution
from camvo.state.state import State
from camvo.subsets.confidence import confidence_by_beta, confidence_by_lemma_1
from camvo.votes.numbers import NumericVote

LABELS = ("yes", "no")
EAST = np.array([1.0, 0.0])
PRICES = {"large": 5.0, "medium": 2.0, "small": 1.0, "tiny": 0.5}
POLICY = CaMVo(delta=0.8, k_min=1, confidence="exact", n0=5)


def taught(rewards, rounds=20):
    """A state in which each arm was right in its share of ``rounds`` rounds, all with the context east."""
    state = State(2)
    for position in range(rounds):
        changes = (Change(arm, 0.5, None, float(position < share * rounds)) for arm, share in rewards.items())
        state.add(Contribution(EAST, tuple(changes)))
    return state


KNOWN = taught({"large": 1.0, "medium": 0.9, "small": 0.6, "tiny": 0.6})


def past(key, votes, **named):
    return PastRound(key, EAST, votes, named.pop("labels", LABELS), named.pop("costs", PRICES), **named)


def test_a_round_decided_by_models_that_turned_out_poor_is_listed_with_the_models_to_ask():
    (revisit,) = find_revisits(POLICY, KNOWN, [past("old", {"small": "yes", "tiny": "no"})])
    assert revisit.key == "old"
    assert revisit.confidence < POLICY.delta
    assert revisit.ask == ("medium",)
    assert revisit.decision.label == "yes"


def test_a_round_that_is_confident_enough_today_is_not_listed():
    assert find_revisits(POLICY, KNOWN, [past("fine", {"large": "yes", "medium": "yes"})]) == []


def test_the_same_round_is_listed_or_not_depending_on_the_state():
    early, late = taught({"small": 0.9, "tiny": 0.9}, 10), taught({"small": 0.6, "tiny": 0.6}, 40)
    round_ = [past("old", {"small": "yes", "tiny": "yes"})]
    policy = CaMVo(delta=0.6, k_min=1, confidence="exact", n0=5)
    assert find_revisits(policy, early, round_) == []
    assert len(find_revisits(policy, late, round_)) == 1


def test_an_arm_that_failed_is_not_asked_again_under_the_same_prompt():
    (revisit,) = find_revisits(POLICY, KNOWN, [past("old", {"small": "yes", "large": None})])
    assert "large" not in revisit.ask
    assert "small" not in revisit.ask


def test_under_a_new_prompt_every_model_may_be_asked_again():
    round_ = [past("old", {"large": None, "small": "yes"})]
    (revisit,) = find_revisits(POLICY, KNOWN, round_, new_prompt=True)
    plan = POLICY.plan({"q": Observation(KNOWN, EAST, LABELS)}, PRICES)
    assert revisit.ask == plan.subset == ("medium",)


def test_if_all_models_were_asked_none_is_left_to_ask():
    poor = taught(dict.fromkeys(PRICES, 0.6))
    (revisit,) = find_revisits(POLICY, poor, [past("old", dict.fromkeys(PRICES, "no"))])
    assert revisit.ask == ()
    assert revisit.decision.label == "no"


def test_the_votes_of_a_model_that_left_the_pool_do_not_count():
    votes = {"large": "yes", "small": "no"}
    assert find_revisits(POLICY, KNOWN, [past("old", votes)]) == []
    (revisit,) = find_revisits(POLICY, KNOWN, [past("old", votes, costs={"medium": 2.0, "small": 1.0})])
    assert revisit.decision.label == "no"
    assert revisit.ask == ("medium",)


def test_a_round_whose_voters_have_all_left_has_no_confidence_and_no_decision():
    (revisit,) = find_revisits(POLICY, KNOWN, [past("old", {"gone": "yes"})])
    assert (revisit.confidence, revisit.decision) == (0.0, None)


def test_with_delta_0_no_round_is_listed():
    assert find_revisits(CaMVo(delta=0.0, k_min=1), KNOWN, [past("old", {"large": None})]) == []


def test_the_least_confident_round_comes_first():
    rounds = [past("one", {"small": "yes"}), past("none", {"large": None}), past("fine", {"large": "yes"})]
    assert [revisit.key for revisit in find_revisits(POLICY, KNOWN, rounds)] == ["none", "one"]


def test_finding_revisits_does_not_change_the_state():
    state = taught({"large": 1.0, "small": 0.6})
    before = state.snapshot()
    find_revisits(POLICY, state, [past("old", {"small": "yes"})])
    assert state.snapshot() == before


def test_a_number_is_revisited_like_a_label():
    round_ = past("old", {"small": "3", "tiny": "9"}, labels=(), aggregation=NumericVote(0.0, 10.0))
    (revisit,) = find_revisits(POLICY, KNOWN, [round_])
    assert revisit.ask == ("medium",)
    assert 3.0 <= float(revisit.decision.label) <= 9.0


@pytest.mark.parametrize("name", ["exact", "beta"])
@given(seed=st.integers(0, 2**32 - 1), delta=st.sampled_from([0.5, 0.7, 0.9]), k_min=st.integers(1, 4))
@settings(deadline=None, max_examples=60)
def test_the_confidence_is_lemma_1s_and_the_arms_to_ask_are_the_cheapest_that_suffice(
    name, seed, delta, k_min
):
    rng = np.random.default_rng(seed)
    arms = sorted(PRICES)
    state = State(2)
    for _ in range(rng.integers(5, 40)):
        changes = [Change(arm, rng.random(), None, float(rng.random() < 0.8)) for arm in arms]
        state.add(Contribution(EAST + 0.3 * rng.normal(size=2), tuple(changes)))
    votes = {arm: rng.choice([*LABELS, None]) for arm in arms if rng.random() < 0.6}
    policy = CaMVo(delta=delta, k_min=k_min, confidence=name, n0=5)
    known = estimate(Observation(state, EAST, LABELS), arms, alpha=0.25, lambda_r=1.0)
    voted = [arms.index(arm) for arm, vote in votes.items() if vote is not None]
    free = [position for position, arm in enumerate(arms) if arm not in votes]
    costs = {arm: float(price) for arm, price in zip(arms, rng.random(4) + 0.1, strict=True)}

    def reached(members):
        return {"exact": confidence_by_lemma_1, "beta": confidence_by_beta}[name](
            known.lower[members], known.weights[members]
        )

    revisits = find_revisits(policy, state, [past("old", votes, costs=costs)])
    if reached(voted) >= delta:
        assert revisits == []
        return
    assert revisits[0].confidence == pytest.approx(reached(voted), abs=1e-12)
    sets = chain.from_iterable(combinations(free, size) for size in range(len(free) + 1))
    prices = {
        asked: sum(costs[arms[position]] for position in asked)
        for asked in sets
        if len(voted) + len(asked) >= k_min and reached([*voted, *asked]) >= delta
    }
    best = min(prices, key=prices.get) if prices else tuple(free)
    assert revisits[0].ask == tuple(arms[position] for position in best)
