"""What holds for every policy by name; a new one is covered as soon as it is registered."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache

import numpy as np
import pytest
from same_state import assert_same_state

from camvo.errors import InvalidParameterError
from camvo.policies.named import POLICIES
from camvo.policies.policy import Observation, Plan, Policy
from camvo.state.contribution import Contribution, revision
from camvo.state.state import State
from camvo.typing import Array, Votes
from camvo.votes.labels import LABEL_VOTE
from camvo.votes.numbers import NumericVote

ARGUMENTS: Mapping[str, Mapping[str, object]] = {
    "cascade": {"threshold": 0.9},
    "random": {"share": 0.5},
    "router": {"threshold": 0.1},
    "single": {"model": "a"},
    "subset": {"models": ("a",)},
}
"""The arguments of policies that need some; the model "a" is in every pool below."""

COSTS = {"d": 9.0, "b": 1.0, "a": 0.5, "c": 3.0}
LABELS = ("neg", "neutral", "pos")
MOOD, STARS = "mood", "stars"
DIMENSION, ROUNDS = 4, 40
STARS_VOTE = NumericVote(1.0, 5.0)


def policy_named(name: str, **changed: object) -> Policy:
    try:
        return POLICIES[name](**{**ARGUMENTS.get(name, {}), **changed})  # type: ignore[arg-type]
    except TypeError as error:
        pytest.fail(f"the policy {name!r} needs arguments; add them to ARGUMENTS in {__file__}: {error}")


def context_of(number: int) -> Array:
    vector = np.random.default_rng(number).normal(size=DIMENSION)
    return vector / np.linalg.norm(vector)


def vote_of(arm: str, number: int) -> dict[str, str]:
    """What an arm answers: "b" fails now and then, "a" has no stars now and then, the cheap ones err."""
    rng = np.random.default_rng([ord(arm), number])
    if arm == "b" and rng.random() < 0.2:
        return {}
    right = rng.random() < {"a": 0.7, "b": 0.75, "c": 0.8, "d": 0.9}[arm]
    answers = {MOOD: LABELS[(number + (0 if right else 1)) % 3], STARS: str(3 if right else 1)}
    if arm == "a" and rng.random() < 0.2:
        del answers[STARS]
    return answers


def observations(states: Mapping[str, State], number: int) -> dict[str, Observation]:
    return {
        MOOD: Observation(states[MOOD], context_of(number), LABELS),
        STARS: Observation(states[STARS], context_of(number), (), STARS_VOTE),
    }


def asked_by(policy: Policy, plan: Plan, number: int) -> tuple[Votes, list[tuple[str, ...]]]:
    """The votes of one task and the arms of each stage."""
    votes: dict[str, dict[str, str]] = {}
    stages = []
    while (arms := policy.ask(plan, votes)) and len(stages) <= len(plan.arms):
        stages.append(arms)
        votes |= {arm: vote_of(arm, number) for arm in arms}
    return votes, stages


def lessons(policy: Policy, plan: Plan, votes: Votes) -> dict[tuple[str, bool], Contribution]:
    """What each question's state learns, from the label decided and from a person's."""
    return {
        (question, human): policy.contribution(plan, question, votes, decision.label, human=human)
        for question, decision in policy.decide(plan, votes).items()
        for human in (False, True)
    }


def outcome(policy: Policy, plan: Plan, number: int) -> object:
    """Everything that a policy says about one task, in a form that can be compared."""
    votes, stages = asked_by(policy, plan, number)
    taught = {key: lesson.pack() for key, lesson in lessons(policy, plan, votes).items()}
    described = {question: plan.describe(question) for question in plan.estimates}
    return described, stages, policy.decide(plan, votes), taught


@lru_cache
def snapshots_after(name: str, rounds: int) -> dict[str, bytes]:
    """The states after some rounds of the policy itself, every third of them labelled by a person."""
    policy = policy_named(name)
    states = {MOOD: State(DIMENSION), STARS: State(DIMENSION)}
    for number in range(rounds):
        plan = policy.plan(observations(states, number), COSTS)
        votes, _ = asked_by(policy, plan, number)
        for question, decision in policy.decide(plan, votes).items():
            truth = LABELS[number % 3] if question == MOOD else "3"
            human = number % 3 == 0
            label = truth if human else decision.label
            states[question].add(policy.contribution(plan, question, votes, label, human=human))
    return {question: state.snapshot() for question, state in states.items()}


def states_after(name: str, rounds: int) -> dict[str, State]:
    return {question: State.restore(data) for question, data in snapshots_after(name, rounds).items()}


@pytest.fixture(params=[0, ROUNDS], ids=["at first", "after some rounds"])
def states(request: pytest.FixtureRequest, name: str) -> dict[str, State]:
    return states_after(name, request.param)


every_policy = pytest.mark.parametrize("name", POLICIES)


@every_policy
def test_the_same_task_has_the_same_outcome(name, states):
    policy = policy_named(name)
    outcomes = [outcome(policy, policy.plan(observations(states, 99), COSTS), 99) for _ in range(2)]
    assert outcomes[0] == outcomes[1]


@every_policy
def test_the_order_of_the_models_changes_nothing(name, states):
    policy = policy_named(name)
    orders = [COSTS, dict(reversed(COSTS.items())), dict(sorted(COSTS.items()))]
    outcomes = [outcome(policy, policy.plan(observations(states, 99), costs), 99) for costs in orders]
    assert outcomes[0] == outcomes[1] == outcomes[2]


@every_policy
def test_the_order_of_the_votes_changes_nothing(name, states):
    policy = policy_named(name)
    plan = policy.plan(observations(states, 99), COSTS)
    votes, _ = asked_by(policy, plan, 99)
    backwards = dict(reversed(votes.items()))
    assert policy.decide(plan, backwards) == policy.decide(plan, votes)
    taught, taught_backwards = (
        {key: lesson.pack() for key, lesson in lessons(policy, plan, cast).items()}
        for cast in (votes, backwards)
    )
    assert taught_backwards == taught


@every_policy
def test_only_models_of_the_pool_are_asked_and_each_once(name, states):
    policy = policy_named(name)
    for number in range(20):
        plan = policy.plan(observations(states, number), COSTS)
        _, stages = asked_by(policy, plan, number)
        arms = [arm for stage in stages for arm in stage]
        assert arms
        assert len(set(arms)) == len(arms)
        assert set(arms) <= COSTS.keys()


@every_policy
def test_asking_ends_and_nothing_is_decided_where_every_model_fails(name, states):
    policy = policy_named(name)
    plan = policy.plan(observations(states, 99), COSTS)
    votes: dict[str, dict[str, str]] = {}
    for _ in range(len(COSTS)):
        votes |= {arm: {} for arm in policy.ask(plan, votes)}
    assert policy.ask(plan, votes) == ()
    assert policy.decide(plan, votes) == {}


@every_policy
def test_a_decision_is_a_label_that_got_a_vote(name, states):
    policy = policy_named(name)
    for number in range(20):
        plan = policy.plan(observations(states, number), COSTS)
        votes, _ = asked_by(policy, plan, number)
        decisions = policy.decide(plan, votes)
        if MOOD in decisions:
            assert decisions[MOOD].label in {answers.get(MOOD) for answers in votes.values()}


@every_policy
def test_scores_and_trust_are_in_the_unit_interval(name, states):
    policy = policy_named(name)
    for number in range(20):
        plan = policy.plan(observations(states, number), COSTS)
        votes, _ = asked_by(policy, plan, number)
        for decision in policy.decide(plan, votes).values():
            assert 0.0 <= decision.score <= 1.0
            assert 0.0 <= decision.trust <= 1.0
            assert decision.posterior[decision.label] == decision.score


@every_policy
def test_the_probabilities_of_the_labels_sum_to_one(name, states):
    policy = policy_named(name)
    plan = policy.plan(observations(states, 1), COSTS)
    votes, _ = asked_by(policy, plan, 1)
    posterior = policy.decide(plan, votes)[MOOD].posterior
    assert posterior.keys() == set(LABELS)
    assert sum(posterior.values()) == pytest.approx(1.0)


@every_policy
def test_propensities_are_probabilities(name, states):
    plan = policy_named(name).plan(observations(states, 99), COSTS)
    assert ((plan.propensity >= 0.0) & (plan.propensity <= 1.0)).all()


@every_policy
@pytest.mark.parametrize("human", [False, True], ids=["the vote", "a person"])
def test_undoing_a_round_restores_the_state(name, human):
    policy, states = policy_named(name), states_after(name, ROUNDS)
    plan = policy.plan(observations(states, 99), COSTS)
    votes, _ = asked_by(policy, plan, 99)
    for question, decision in policy.decide(plan, votes).items():
        lesson = policy.contribution(plan, question, votes, decision.label, human=human)
        before = State.restore(states[question].snapshot())
        states[question].add(lesson)
        states[question].add(lesson.withdrawal())
        assert_same_state(states[question], before)


@every_policy
def test_a_correction_is_the_same_as_the_right_label_at_once(name, states):
    policy = policy_named(name)
    plan = policy.plan(observations(states, 99), COSTS)
    votes, _ = asked_by(policy, plan, 99)
    at_once = State.restore(states[MOOD].snapshot())
    voted = policy.contribution(plan, MOOD, votes, "neg")
    corrected = policy.contribution(plan, MOOD, votes, "pos", human=True)
    at_once.add(corrected)
    states[MOOD].add(voted)
    states[MOOD].add(revision(voted, corrected))
    assert_same_state(states[MOOD], at_once)


@every_policy
def test_a_contribution_completes_one_round(name, states):
    policy = policy_named(name)
    plan = policy.plan(observations(states, 99), COSTS)
    votes, _ = asked_by(policy, plan, 99)
    assert {lesson.rounds for lesson in lessons(policy, plan, votes).values()} == {1}


@every_policy
def test_a_contribution_survives_being_stored(name, states):
    policy = policy_named(name)
    plan = policy.plan(observations(states, 99), COSTS)
    votes, _ = asked_by(policy, plan, 99)
    for lesson in lessons(policy, plan, votes).values():
        assert Contribution.unpack(lesson.pack()).pack() == lesson.pack()


@every_policy
def test_a_policy_survives_pickling(name):
    policy = policy_named(name)
    assert pickle.loads(pickle.dumps(policy)) == policy  # noqa: S301 - our own bytes


@every_policy
def test_a_plan_survives_pickling(name, states):
    policy = policy_named(name)
    plan = policy.plan(observations(states, 99), COSTS)
    again = pickle.loads(pickle.dumps(plan))  # noqa: S301 - our own bytes
    assert outcome(policy, again, 99) == outcome(policy, plan, 99)


@every_policy
def test_a_pickled_state_plans_the_same(name, states):
    policy = policy_named(name)
    again = pickle.loads(pickle.dumps(states))  # noqa: S301 - our own bytes
    outcomes = [
        outcome(policy, policy.plan(observations(variant, 99), COSTS), 99) for variant in (states, again)
    ]
    assert outcomes[0] == outcomes[1]


@every_policy
def test_a_state_from_a_snapshot_plans_the_same(name, states):
    policy = policy_named(name)
    again = {question: State.restore(state.snapshot()) for question, state in states.items()}
    outcomes = [
        outcome(policy, policy.plan(observations(variant, 99), COSTS), 99) for variant in (states, again)
    ]
    assert outcomes[0] == outcomes[1]


@every_policy
def test_one_model_is_enough(name, states):
    policy = policy_named(name)
    plan = policy.plan(observations(states, 99), {"a": 1.0})
    assert asked_by(policy, plan, 99)[1] == [("a",)]


@every_policy
def test_models_may_cost_nothing(name, states):
    policy = policy_named(name)
    plan = policy.plan(observations(states, 99), dict.fromkeys(COSTS, 0.0))
    assert asked_by(policy, plan, 99)[1]


@every_policy
def test_a_model_that_is_new_to_the_pool_can_be_planned_with(name, states):
    policy = policy_named(name)
    plan = policy.plan(observations(states, 99), {**COSTS, "new": 0.1})
    assert "new" in plan.arms
    assert np.isfinite(plan.weights[MOOD]).all()


@every_policy
def test_what_is_passed_in_is_left_as_it_was(name, states):
    policy = policy_named(name)
    before = {question: State.restore(state.snapshot()) for question, state in states.items()}
    observed, costs = observations(states, 99), dict(COSTS)
    contexts = {question: observation.context.copy() for question, observation in observed.items()}
    plan = policy.plan(observed, costs)
    votes, _ = asked_by(policy, plan, 99)
    votes_before = pickle.dumps(votes)
    policy.ask(plan, votes)
    policy.decide(plan, votes)
    lessons(policy, plan, votes)
    assert costs == COSTS
    assert pickle.dumps(votes) == votes_before
    for question, observation in observed.items():
        np.testing.assert_array_equal(observation.context, contexts[question])
        assert_same_state(states[question], before[question])


@every_policy
def test_a_plan_without_a_model_is_refused(name, states):
    with pytest.raises(InvalidParameterError):
        policy_named(name).plan(observations(states, 99), {})


@every_policy
def test_a_plan_without_a_question_is_refused(name):
    with pytest.raises(InvalidParameterError):
        policy_named(name).plan({}, COSTS)


@every_policy
@pytest.mark.parametrize(
    "context",
    [np.ones(DIMENSION + 1), np.ones((1, DIMENSION)), np.full(DIMENSION, np.nan), np.full(DIMENSION, np.inf)],
    ids=["too long", "two axes", "NaN", "infinite"],
)
def test_a_context_that_does_not_fit_the_state_is_refused(name, states, context):
    observed = {MOOD: Observation(states[MOOD], context, LABELS)}
    with pytest.raises(InvalidParameterError):
        policy_named(name).plan(observed, COSTS)


@every_policy
def test_a_question_without_labels_is_refused(name, states):
    observed = {MOOD: Observation(states[MOOD], context_of(99), (), LABEL_VOTE)}
    with pytest.raises(InvalidParameterError):
        policy_named(name).plan(observed, COSTS)


@every_policy
def test_a_vote_outside_the_label_set_is_refused(name, states):
    policy = policy_named(name)
    plan = policy.plan({MOOD: Observation(states[MOOD], context_of(99), LABELS)}, COSTS)
    with pytest.raises(InvalidParameterError):
        policy.decide(plan, {arm: {MOOD: "angry"} for arm in policy.ask(plan, {})})


@every_policy
def test_a_parameter_out_of_its_range_is_refused(name):
    wrong = {float: float("nan"), type(None): float("nan"), int: -1, str: "nonsense", tuple: ()}
    for field in fields(POLICIES[name]):
        kind = type(ARGUMENTS.get(name, {}).get(field.name, field.default))
        if not field.init or (name, field.name) == ("single", "model"):
            continue
        with pytest.raises(InvalidParameterError):
            policy_named(name, **{field.name: wrong[kind]})


@pytest.mark.parametrize(("name", "model"), [("single", {"model": "x"}), ("subset", {"models": ("x",)})])
def test_a_model_outside_the_pool_is_refused(name, model):
    with pytest.raises(InvalidParameterError, match="'x'"):
        policy_named(name, **model).plan(observations(states_after(name, 0), 99), COSTS)


@every_policy
def test_confidences_that_nothing_is_known_of_change_nothing(name: str, states: dict[str, State]) -> None:
    policy = policy_named(name)
    plan = policy.plan(observations(states, ROUNDS), COSTS)
    votes, _ = asked_by(policy, plan, ROUNDS)
    sure = {arm: dict.fromkeys(answers, 0.75) for arm, answers in votes.items()}
    assert policy.ask(plan, votes, confidences=sure) == policy.ask(plan, votes)
    assert policy.decide(plan, votes, confidences=sure) == policy.decide(plan, votes)


@every_policy
def test_confidences_are_learnt_for_labels_only(name: str, states: dict[str, State]) -> None:
    policy = policy_named(name)
    plan = policy.plan(observations(states, ROUNDS), COSTS)
    votes = {arm: {MOOD: "pos", STARS: "3"} for arm in plan.arms}
    sure = {arm: dict.fromkeys(answers, 0.75) for arm, answers in votes.items()}
    for question, label in ((MOOD, "pos"), (STARS, "3")):
        taught = policy.contribution(plan, question, votes, label, human=True, confidences=sure)
        kept = taught.kept is not None and any(vote.confidence is not None for vote in taught.kept.votes)
        assert (question == MOOD) >= (kept or bool(taught.compared))
