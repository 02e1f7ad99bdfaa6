from __future__ import annotations

import numpy as np
import pytest

from camvo.errors import InvalidParameterError
from camvo.policies.camvo import CaMVo
from camvo.policies.ensemble import Baseline, Ensemble, Fixed, Majority, Random, Single
from camvo.policies.policy import Observation
from camvo.state.contribution import Change, Contribution
from camvo.state.state import State

LABELS = ("yes", "no")
EAST = np.array([1.0, 0.0])
ARMS = {"a": 3.0, "b": 2.0, "c": 1.0}
SPLIT = {"a": {"q": "yes"}, "b": {"q": "no"}, "c": {"q": "no"}}


def taught(*shares):
    state = State(2)
    for position in range(20):
        changes = (
            Change(arm, 0.5, None, float(position < share * 20))
            for arm, share in zip(ARMS, shares, strict=True)
        )
        state.add(Contribution(EAST, tuple(changes)))
    return state


def plan(policy, state):
    return policy.plan({"q": Observation(state, EAST, LABELS)}, ARMS)


@pytest.mark.parametrize(
    "policy", [Baseline(), Majority(), Ensemble()], ids=lambda policy: type(policy).__name__
)
def test_all_models_are_asked_once_and_failures_are_not_replaced(policy):
    planned = plan(policy, taught(0.9, 0.5, 0.5))
    assert policy.ask(planned, {}) == ("a", "b", "c")
    assert policy.ask(planned, {"a": {"q": "yes"}, "b": {}, "c": {}}) == ()
    assert planned.propensity.tolist() == [1.0, 1.0, 1.0]


def test_the_baseline_weighs_votes_by_their_agreement_so_far():
    for shares, label in (((1.0, 0.45, 0.5), "yes"), ((0.9, 0.45, 0.5), "no")):
        assert Baseline().decide(plan(Baseline(), taught(*shares)), SPLIT)["q"].label == label


def test_the_baseline_starts_with_equal_weights():
    assert Baseline().decide(plan(Baseline(), State(2)), SPLIT)["q"].label == "no"


def test_the_baseline_ignores_the_context():
    away = Observation(taught(1.0, 0.45, 0.5), -EAST, LABELS)
    assert Baseline().decide(Baseline().plan({"q": away}, ARMS), SPLIT)["q"].label == "yes"


def test_the_majority_counts_every_vote_the_same():
    assert Majority().decide(plan(Majority(), taught(1.0, 0.0, 0.05)), SPLIT)["q"].label == "no"


def test_the_score_is_that_of_the_label_even_where_another_is_likelier():
    decision = Majority().decide(plan(Majority(), taught(1.0, 0.5, 0.5)), SPLIT)["q"]
    assert decision.label == "no"
    assert decision.score == decision.posterior["no"] < decision.posterior["yes"]


def test_a_majority_that_is_tied_goes_to_the_more_reliable_side():
    tied = {"a": {"q": "no"}, "b": {"q": "yes"}}
    assert Majority().decide(plan(Majority(), taught(0.9, 0.5, 0.5)), tied)["q"].label == "no"
    assert Majority().decide(plan(Majority(), taught(0.5, 0.9, 0.5)), tied)["q"].label == "yes"


def test_a_single_model_is_asked_and_taken_at_its_word():
    policy = Single(model="b")
    planned = plan(policy, taught(1.0, 0.0, 1.0))
    assert planned.subset == ("b",)
    assert planned.propensity.tolist() == [0.0, 1.0, 0.0]
    assert policy.ask(planned, {"b": {}}) == ()
    assert policy.decide(planned, {"b": {"q": "no"}})["q"].label == "no"


def test_a_single_model_that_was_never_right_is_still_taken_at_its_word():
    policy = Single(model="b", lambda_r=0.0)
    assert policy.decide(plan(policy, taught(1.0, 0.0, 1.0)), {"b": {"q": "no"}})["q"].label == "no"


def test_a_single_model_learns_from_humans_only():
    policy = Single(model="b")
    planned, votes = plan(policy, State(2)), {"b": {"q": "no"}}
    assert policy.contribution(planned, "q", votes, "no").changes == ()
    assert [c.added for c in policy.contribution(planned, "q", votes, "yes", human=True).changes] == [0.0]


def test_a_single_model_that_is_not_in_the_pool_is_refused_by_name():
    with pytest.raises(InvalidParameterError, match="'d' is not in the pool: a, b, c"):
        plan(Single(model="d"), State(2))


def test_a_fixed_subset_is_asked_and_weighed_by_its_agreement():
    policy, everyone = Fixed(models=("c", "a")), taught(0.9, 0.5, 0.6)
    planned = plan(policy, everyone)
    assert planned.subset == ("a", "c")
    assert planned.weights["q"].tolist() == plan(Baseline(), everyone).weights["q"].tolist()


def test_a_fixed_subset_is_of_at_least_one_model_and_all_of_them_are_in_the_pool():
    with pytest.raises(InvalidParameterError, match="at least one model"):
        Fixed(models=())
    with pytest.raises(InvalidParameterError, match="'d' is not in the pool: a, b, c"):
        plan(Fixed(models=("a", "d")), State(2))


def draws(share, many=2000):
    """The subsets of as many contexts, indicator rows."""
    policy, rng, state = Random(share=share), np.random.default_rng(1), State(2)
    plans = [
        policy.plan({"q": Observation(state, context, LABELS)}, ARMS)
        for context in rng.normal(size=(many, 2))
    ]
    return np.array([[arm in planned.subset for arm in ARMS] for planned in plans])


@pytest.mark.parametrize("share", [0.4, 2 / 3, 0.9])
def test_a_random_subset_asks_every_model_in_its_share_of_the_rounds(share):
    asked = draws(share).mean(axis=0)
    assert asked == pytest.approx(share, abs=5.0 * np.sqrt(share * (1.0 - share) / 2000))


def test_a_random_subset_is_as_near_to_its_share_as_whole_models_are():
    assert set(draws(0.4).sum(axis=1)) == {1, 2}
    assert set(draws(1 / 9).sum(axis=1)) == {1}
    assert set(draws(1.0).sum(axis=1)) == {3}


def test_a_random_subset_is_drawn_again_when_something_was_learnt():
    state, subsets = State(2), set()
    for _ in range(20):
        state.add(Contribution(EAST, (Change("a", 0.5, None, 1.0),)))
        subsets.add(plan(Random(share=0.4), state).subset)
    assert len(subsets) > 3


def test_a_random_subset_says_how_likely_it_was_to_ask_each_model():
    assert plan(Random(share=0.4), State(2)).propensity.tolist() == [0.4] * 3
    assert plan(Random(share=0.1), State(2)).propensity.tolist() == [1 / 3] * 3


@pytest.mark.parametrize("share", [0.0, 1.1, float("nan")])
def test_a_random_subset_is_a_share_of_the_models(share):
    with pytest.raises(InvalidParameterError, match="share must be"):
        Random(share=share)


def test_every_policy_learns_the_same_from_the_same_votes():
    state = taught(0.9, 0.5, 0.5)
    lessons = {
        policy.contribution(plan(policy, state), "q", SPLIT, "no").pack()
        for policy in (CaMVo(), Baseline(), Majority(), Single(model="a"))
    }
    assert len(lessons) == 1
