from __future__ import annotations

import json
import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camvo.errors import InvalidParameterError
from camvo.policies.camvo import CaMVo
from camvo.policies.ensemble import Ensemble
from camvo.policies.policy import Observation
from camvo.state.contribution import Change, Contribution
from camvo.state.state import State

LABELS = ("yes", "no", "maybe")
EAST = np.array([1.0, 0.0])
PRICES = {"large": 5.0, "medium": 2.0, "small": 1.0, "tiny": 0.5}


def taught(rewards, rounds=20):
    """A state in which each arm was right in its share of ``rounds`` rounds, all with the context east."""
    state = State(2)
    for position in range(rounds):
        changes = (Change(arm, 0.5, None, float(position < share * rounds)) for arm, share in rewards.items())
        state.add(Contribution(EAST, tuple(changes)))
    return state


def observed(*states):
    return {f"q{position}": Observation(state, EAST, LABELS) for position, state in enumerate(states)}


def asked(policy, plan, answers):
    """Play ``ask`` to its end; ``answers`` is arm → question → label, nothing for an arm that fails."""
    votes, stages = {}, []
    while wanted := policy.ask(plan, votes):
        stages.append(wanted)
        for arm in wanted:
            assert arm not in votes, "an arm is asked once"
            votes[arm] = answers.get(arm, {})
    return stages, votes


GOOD = {"large": 1.0, "medium": 0.9, "small": 0.9, "tiny": 0.9}
EXACT = CaMVo(delta=0.8, k_min=1, confidence="exact", n0=5)


# Failures: arms that gave no vote are replaced.


def test_when_everyone_answers_nobody_else_is_asked():
    plan = EXACT.plan(observed(taught(GOOD)), PRICES)
    stages, _ = asked(EXACT, plan, {arm: {"q0": "yes"} for arm in PRICES})
    assert stages == [plan.subset]
    assert len(plan.subset) < len(PRICES)


def test_a_failed_arm_is_replaced_by_the_cheapest_that_suffices():
    plan = EXACT.plan(observed(taught(GOOD)), PRICES)
    assert plan.subset == ("tiny",)
    stages, _ = asked(EXACT, plan, {arm: {"q0": "yes"} for arm in ("large", "medium", "small")})
    assert stages == [("tiny",), ("small",)]


def test_after_every_failure_the_next_is_asked_until_nobody_is_left():
    plan = EXACT.plan(observed(taught(GOOD)), PRICES)
    stages, votes = asked(EXACT, plan, {})
    assert stages == [("tiny",), ("small",), ("medium",), ("large",)]
    assert EXACT.decide(plan, votes) == {}


def test_votes_that_came_are_kept_and_complemented():
    policy = CaMVo(delta=0.5, k_min=2, confidence="exact", n0=5)
    plan = policy.plan(observed(taught(GOOD)), PRICES)
    assert plan.subset == ("small", "tiny")
    stages, _ = asked(policy, plan, {"tiny": {"q0": "yes"}, "medium": {"q0": "yes"}})
    assert stages == [("small", "tiny"), ("medium",)]


def test_when_no_remaining_set_suffices_all_that_remain_are_asked():
    policy = CaMVo(delta=0.85, k_min=1, confidence="exact", n0=5)
    plan = policy.plan(observed(taught({"large": 1.0, "medium": 0.6, "small": 0.6, "tiny": 0.6})), PRICES)
    assert plan.subset == ("large",)
    stages, _ = asked(policy, plan, {})
    assert stages == [("large",), ("medium", "small", "tiny")]


def test_a_failure_that_leaves_enough_confidence_asks_nobody_else():
    policy = CaMVo(delta=0.8, k_min=1, confidence="exact", n0=15)
    state = taught(GOOD, rounds=20)
    for _ in range(12):
        state.add(Contribution(EAST, (Change("young", 0.5, None, 0.0),)))
    plan = policy.plan(observed(state), PRICES | {"young": 1.0})
    assert plan.subset == ("tiny", "young")
    stages, _ = asked(policy, plan, {"tiny": {"q0": "yes"}})
    assert stages == [("tiny", "young")]


def test_a_question_that_an_arm_left_out_is_put_to_another():
    sure = taught(GOOD)
    plan = EXACT.plan(observed(sure, sure), PRICES)
    both = {"q0": "yes", "q1": "no"}
    stages, votes = asked(EXACT, plan, {"tiny": {"q0": "yes"}, "small": both, "medium": both, "large": both})
    # On q0 small and tiny weigh the same, so together they could tie; large outweighs the vote that is there.
    assert stages == [("tiny",), ("large",)]
    assert {question: d.label for question, d in EXACT.decide(plan, votes).items()} == {
        "q0": "yes",
        "q1": "no",
    }


@given(st.integers(0, 2**32 - 1), st.sampled_from(["beta", "exact"]), st.integers(1, 6), st.integers(1, 3))
@settings(deadline=None, max_examples=60)
def test_asking_ends_and_nobody_is_asked_twice_whatever_fails(seed, confidence, k_min, questions):
    rng = np.random.default_rng(seed)
    arms = [f"arm {position}" for position in range(rng.integers(1, 7))]
    states = []
    for _ in range(questions):
        state = State(2)
        for _ in range(rng.integers(0, 30)):
            changes = [
                Change(arm, rng.random(), None, float(rng.random() < 0.8))
                for arm in arms
                if rng.random() < 0.7
            ]
            state.add(Contribution(rng.normal(size=2), tuple(changes)))
        states.append(state)
    policy = CaMVo(
        delta=float(rng.choice([0.5, 0.8, 0.97])),
        k_min=k_min,
        n0=int(rng.integers(1, 12)),
        confidence=confidence,
    )
    plan = policy.plan(observed(*states), {arm: float(rng.integers(0, 3)) for arm in arms})
    answers = {
        arm: {f"q{q}": str(rng.choice(LABELS)) for q in range(questions) if rng.random() < 0.6}
        for arm in arms
    }
    stages, votes = asked(policy, plan, answers)
    assert stages[0] == plan.subset
    voted = {question for answer in votes.values() for question in answer}
    assert set(policy.decide(plan, votes)) == voted
    if not any(votes.values()) or plan.confidence is None:
        assert set(votes) == set(arms)
    if len(votes) < len(arms):
        assert len([arm for arm in votes if votes[arm]]) >= k_min


# The subset.


def test_without_history_everyone_is_asked_and_no_confidence_is_claimed():
    plan = CaMVo().plan(observed(State(2)), PRICES)
    assert plan.subset == tuple(sorted(PRICES))
    assert plan.confidence is None


def test_when_no_set_is_confident_enough_everyone_is_asked():
    plan = CaMVo(delta=1.0, n0=1).plan(observed(taught(GOOD)), PRICES)
    assert plan.subset == tuple(sorted(PRICES))
    assert plan.confidence is None


def test_delta_0_asks_the_k_min_cheapest():
    assert CaMVo(delta=0.0, k_min=2).plan(observed(taught(GOOD)), PRICES).subset == ("small", "tiny")


def test_k_min_beyond_the_pool_asks_everyone():
    plan = CaMVo(delta=0.0, k_min=9).plan(observed(taught(GOOD)), PRICES)
    assert plan.subset == tuple(sorted(PRICES))


def test_a_single_model_is_asked():
    assert CaMVo().plan(observed(taught(GOOD)), {"tiny": 1.0}).subset == ("tiny",)


@pytest.mark.parametrize("confidence", ["beta", "exact"])
def test_free_models_are_asked_where_they_add_confidence(confidence):
    policy = CaMVo(delta=0.5, k_min=1, confidence=confidence, n0=5)
    plan = policy.plan(observed(taught(GOOD)), dict.fromkeys(PRICES, 0.0))
    lone = policy.plan(observed(taught(GOOD)), {"large": 0.0})
    assert plan.confidence >= lone.confidence
    assert "large" in plan.subset


def test_the_confidence_of_the_plan_is_that_of_its_weakest_question():
    strong, weak = taught(GOOD), taught(dict.fromkeys(PRICES, 0.8))
    policy = CaMVo(delta=0.6, k_min=1, confidence="exact", n0=5)
    confidences = [policy.plan(observed(state), {"tiny": 1.0}).confidence for state in (strong, weak)]
    assert (
        policy.plan(observed(strong, weak), {"tiny": 1.0}).confidence == min(confidences) != max(confidences)
    )


def test_a_question_that_needs_more_makes_the_task_ask_more():
    sure = taught(GOOD)
    unsure = taught({"large": 1.0, "medium": 0.6, "small": 0.6, "tiny": 0.6})
    assert EXACT.plan(observed(sure), PRICES).subset == ("tiny",)
    assert EXACT.plan(observed(sure, unsure), PRICES).subset == ("large",)


# n₀: models without enough history.


def test_an_arm_below_n0_is_asked_beside_the_subset_and_does_not_count_towards_it():
    state = taught(GOOD, rounds=12)
    for _ in range(9):
        state.add(Contribution(EAST, (Change("young", 0.5, None, 1.0),)))
    policy = CaMVo(delta=0.8, k_min=1, confidence="exact", n0=10)
    without = policy.plan(observed(state), PRICES)
    plan = policy.plan(observed(state), PRICES | {"young": 100.0})
    assert plan.subset == tuple(sorted([*without.subset, "young"]))
    assert plan.confidence == without.confidence


def test_at_n0_rewards_an_arm_is_chosen_like_any_other():
    state = taught(GOOD, rounds=12)
    for _ in range(10):
        state.add(Contribution(EAST, (Change("young", 0.5, None, 1.0),)))
    policy = CaMVo(delta=0.8, k_min=1, confidence="exact", n0=10)
    assert "young" not in policy.plan(observed(state), PRICES | {"young": 100.0}).subset


def test_an_arm_that_is_young_on_one_question_is_asked():
    old, young = taught(GOOD), taught(GOOD | {"large": 0.9})
    young = State.restore(young.snapshot())
    for _ in range(11):
        young.add(Contribution(EAST, (Change("large", 0.5, 1.0, None),), rounds=0))
    assert young["large"].rewards == 9
    plan = CaMVo(delta=0.8, k_min=1, confidence="exact", n0=10).plan(observed(old, young), PRICES)
    assert "large" in plan.subset


def test_while_no_arm_has_n0_rewards_the_votes_count_the_same():
    state = taught({"large": 1.0, "medium": 0.1, "small": 0.1}, rounds=9)
    votes = {"large": {"q0": "yes"}, "medium": {"q0": "no"}, "small": {"q0": "no"}}
    labels = []
    for n0 in (10, 9):
        policy = CaMVo(n0=n0)
        labels.append(
            policy.decide(policy.plan(observed(state), dict.fromkeys(votes, 1.0)), votes)["q0"].label
        )
    assert labels == ["no", "yes"]


def test_the_vote_is_unweighted_on_the_young_question_only():
    old, young = taught({"large": 1.0, "medium": 0.1, "small": 0.1}), State(2)
    votes = {"large": {"q0": "yes", "q1": "yes"}} | {
        arm: {"q0": "no", "q1": "no"} for arm in ("medium", "small")
    }
    policy = CaMVo()
    decisions = policy.decide(policy.plan(observed(old, young), dict.fromkeys(votes, 1.0)), votes)
    assert (decisions["q0"].label, decisions["q1"].label) == ("yes", "no")


def test_once_an_arm_has_n0_rewards_the_young_ones_vote_with_their_own_weight():
    state = taught({"medium": 0.1, "small": 0.1}, rounds=9)
    for _ in range(10):
        state.add(Contribution(EAST, (Change("large", 0.5, None, 1.0),)))
    votes = {"large": {"q0": "yes"}, "medium": {"q0": "no"}, "small": {"q0": "no"}}
    plan = CaMVo(n0=10).plan(observed(state), dict.fromkeys(votes, 1.0))
    assert CaMVo(n0=10).decide(plan, votes)["q0"].label == "yes"


def test_a_model_that_joins_is_asked_until_it_has_n0_rewards_and_one_that_leaves_is_not_asked():
    policy, state = CaMVo(delta=0.8, k_min=1, confidence="exact", n0=3), taught(GOOD)
    pool = {"medium": 1.0, "tiny": 0.5, "joined": 50.0}
    asked_in = []
    for _ in range(6):
        plan = policy.plan(observed(state), pool)
        assert "large" not in plan.arms
        asked_in.append("joined" in plan.subset)
        votes = {arm: {"q0": "yes"} for arm in plan.subset}
        state.add(policy.contribution(plan, "q0", votes, "yes"))
    assert asked_in == [True, True, True, False, False, False]
    assert state["joined"].rewards == 3
    assert state["large"].rewards == 20


def test_a_model_that_comes_back_goes_on_from_its_history():
    policy, state = EXACT, taught(GOOD)
    before = policy.plan(observed(state), PRICES).estimates["q0"].q
    policy.plan(observed(state), {"tiny": 1.0})
    assert np.array_equal(policy.plan(observed(state), PRICES).estimates["q0"].q, before)


# The order of the models is no information.


def mixed_state(seed, arms):
    rng = np.random.default_rng(seed)
    state = State(3)
    for _ in range(25):
        changes = [Change(arm, rng.random(), None, float(rng.random() < 0.7)) for arm in arms]
        state.add(Contribution(rng.normal(size=3), tuple(changes)))
    return (
        state,
        rng.normal(size=3),
        dict(zip(arms, rng.integers(1, 3, size=len(arms)).tolist(), strict=True)),
    )


@given(st.integers(0, 2**32 - 1), st.sampled_from(["beta", "exact"]))
@settings(deadline=None, max_examples=15)
def test_the_order_of_models_and_of_their_answers_changes_no_bit(seed, confidence):
    state, context, prices = mixed_state(seed, ("a", "b", "c", "d"))
    policy = CaMVo(delta=0.7, k_min=2, confidence=confidence)
    answers = dict(zip("abcd", np.random.default_rng(seed).choice(LABELS, size=4).tolist(), strict=True))
    outcomes = set()
    for order in permutations("abcd"):
        plan = policy.plan(
            {"q": Observation(state, context, LABELS)}, {arm: float(prices[arm]) for arm in order}
        )
        votes = {arm: {"q": answers[arm]} for arm in order if arm in plan.subset}
        decision = policy.decide(plan, votes)["q"]
        lesson = policy.contribution(plan, "q", votes, decision.label)
        outcomes.add((json.dumps(plan.describe("q")), decision.label, decision.score, lesson.pack()))
    assert len(outcomes) == 1


@given(st.integers(0, 2**32 - 1), st.permutations("abcde"))
@settings(deadline=None, max_examples=30)
def test_renaming_the_models_renames_the_plan(seed, names):
    renamed = dict(zip("abcde", names, strict=True))
    state, context, _ = mixed_state(seed, "abcde")
    other, _, _ = mixed_state(seed, names)
    costs = dict(zip("abcde", np.random.default_rng(seed).random(5).tolist(), strict=True))
    policy = CaMVo(delta=0.7, k_min=2)
    plan = policy.plan({"q": Observation(state, context, LABELS)}, costs)
    twin = policy.plan(
        {"q": Observation(other, context, LABELS)}, {renamed[arm]: cost for arm, cost in costs.items()}
    )
    assert set(twin.subset) == {renamed[arm] for arm in plan.subset}


# Learning.


def played(votes, question="q0", label="yes", human=False):
    policy = CaMVo()
    plan = policy.plan(observed(taught(GOOD)), PRICES)
    return plan, policy.contribution(plan, question, votes, label, human=human)


def test_every_voter_is_rewarded_for_agreeing_with_the_label():
    plan, lesson = played({"tiny": {"q0": "no"}, "large": {"q0": "yes"}, "small": {"q0": "yes"}})
    assert [(c.arm, c.removed, c.added) for c in lesson.changes] == [
        ("large", None, 1.0),
        ("small", None, 1.0),
        ("tiny", None, 0.0),
    ]
    q = dict(zip(plan.arms, plan.estimates["q0"].q, strict=True))
    assert [c.q for c in lesson.changes] == [q["large"], q["small"], q["tiny"]]
    assert lesson.rounds == 1


def test_a_lone_vote_teaches_nothing_but_completes_the_round():
    _, lesson = played({"large": {"q0": "yes"}, "small": {}})
    assert (lesson.changes, lesson.rounds) == ((), 1)


def test_a_lone_vote_is_judged_by_a_human():
    _, lesson = played({"large": {"q0": "yes"}, "small": {}}, label="no", human=True)
    assert [(c.arm, c.added) for c in lesson.changes] == [("large", 0.0)]


def test_a_human_label_that_nobody_voted_for_rewards_nobody():
    _, lesson = played({"large": {"q0": "yes"}, "small": {"q0": "no"}}, label="maybe", human=True)
    assert [c.added for c in lesson.changes] == [0.0, 0.0]


def test_an_arm_that_gave_no_vote_on_a_question_learns_nothing_there():
    _, lesson = played({"large": {"q0": "yes"}, "small": {"q0": "yes"}, "tiny": {"q1": "yes"}})
    assert [c.arm for c in lesson.changes] == ["large", "small"]


def test_the_estimates_taught_are_those_of_the_plan_however_late_it_is_learnt():
    policy, state = CaMVo(), taught(GOOD)
    plan = policy.plan(observed(state), PRICES)
    votes = {arm: {"q0": "yes"} for arm in plan.subset}
    before = policy.contribution(plan, "q0", votes, "yes").pack()
    for _ in range(5):
        state.add(policy.contribution(plan, "q0", votes, "no"))
    assert policy.contribution(plan, "q0", votes, "yes").pack() == before


# Decisions.


def test_the_score_is_the_posterior_of_the_label_and_not_the_confidence_of_the_plan():
    policy = CaMVo()
    plan = policy.plan(observed(taught(GOOD)), PRICES)
    decision = policy.decide(plan, {"large": {"q0": "yes"}, "tiny": {"q0": "no"}})["q0"]
    assert decision.score == decision.posterior[decision.label]
    assert math.fsum(decision.posterior.values()) == pytest.approx(1.0)
    assert decision.score != plan.confidence


def test_the_first_unanimous_vote_scores_above_one_half():
    policy = CaMVo()
    plan = policy.plan(observed(State(2)), PRICES)
    assert policy.decide(plan, {arm: {"q0": "no"} for arm in PRICES})["q0"].score > 0.95


def test_a_question_without_a_vote_is_not_decided():
    plan = CaMVo().plan(observed(taught(GOOD), taught(GOOD)), PRICES)
    assert set(CaMVo().decide(plan, {"large": {"q1": "no"}, "tiny": {}})) == {"q1"}


def test_a_tie_of_weights_goes_to_the_larger_sum_of_lower_bounds():
    state = taught({"large": 1.0, "medium": 0.0, "small": 0.0})
    plan = CaMVo(n0=50).plan(observed(state), {"large": 1.0, "small": 1.0})
    assert (
        CaMVo(n0=50).decide(plan, {"large": {"q0": "maybe"}, "small": {"q0": "yes"}})["q0"].label == "maybe"
    )


def test_arms_that_were_never_right_still_elect_a_label_that_was_voted_for():
    policy = CaMVo(lambda_r=0.0, n0=1)
    plan = policy.plan(observed(taught({"small": 0.0, "tiny": 0.0})), {"small": 1.0, "tiny": 1.0})
    assert plan.estimates["q0"].weights.tolist() == plan.estimates["q0"].lower.tolist() == [0.0, 0.0]
    assert policy.decide(plan, {"small": {"q0": "maybe"}, "tiny": {"q0": "maybe"}})["q0"].label == "maybe"


# The plan as data, and parameters.


def test_the_description_of_a_plan_is_plain_json_with_every_arm():
    plan = EXACT.plan(observed(taught(GOOD)), PRICES)
    described = json.loads(json.dumps(plan.describe("q0"), allow_nan=False))
    assert described["subset"] == ["tiny"]
    assert described["confidence"] == plan.confidence
    assert {arm: row["cost"] for arm, row in described["arms"].items()} == PRICES
    assert {arm: row["propensity"] for arm, row in described["arms"].items()} == dict.fromkeys(
        PRICES, 0.0
    ) | {"tiny": 1.0}
    assert {arm: row["q"] for arm, row in described["arms"].items()} == dict(
        zip(plan.arms, plan.estimates["q0"].q.tolist(), strict=True)
    )


@pytest.mark.parametrize(
    "parameters",
    [
        {"delta": -0.01},
        {"delta": 1.01},
        {"delta": math.nan},
        {"k_min": 0},
        {"n0": 0},
        {"alpha": -1.0},
        {"alpha": math.inf},
        {"lambda_r": -1.0},
        {"lambda_r": math.nan},
        {"confidence": "guess"},
    ],
    ids=str,
)
def test_a_parameter_out_of_range_is_refused(parameters):
    with pytest.raises(InvalidParameterError):
        CaMVo(**parameters)


@pytest.mark.parametrize(
    ("observations", "costs"), [({}, PRICES), (observed(State(2)), {})], ids=["question", "model"]
)
def test_a_plan_needs_a_question_and_a_model(observations, costs):
    for policy in (CaMVo(), Ensemble()):
        with pytest.raises(InvalidParameterError, match="at least one model and one question"):
            policy.plan(observations, costs)


@pytest.mark.parametrize("cost", [-1.0, math.nan, math.inf])
def test_a_cost_that_is_no_price_is_refused(cost):
    with pytest.raises(InvalidParameterError, match="costs"):
        CaMVo().plan(observed(taught(GOOD)), PRICES | {"tiny": cost})


def test_a_search_that_gave_up_says_so_in_the_plan():
    rng = np.random.default_rng(4)
    arms = [f"model {arm:02}" for arm in range(14)]
    state = State(1)
    for _ in range(80):
        state.add(
            Contribution(np.ones(1), tuple(Change(arm, 0.6, None, float(rng.random() < 0.6)) for arm in arms))
        )
    prices = {arm: 1.0 + 0.1 * position for position, arm in enumerate(arms)}
    observations = {"q": Observation(state, np.ones(1), ("no", "yes"))}
    quick = CaMVo(delta=0.8, confidence="copula", budget=3).plan(observations, prices)
    assert not quick.complete
    assert quick.describe("q")["complete"] is False
    assert CaMVo(delta=0.8, confidence="copula", budget=20_000).plan(observations, prices).complete
