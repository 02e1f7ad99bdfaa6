"""The joint policy on ordered labels: it stops early, answers by the error, and learns from people."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import camvo
from camvo.policies.policy import Observation
from camvo.policies.teaching import TaughtRound
from camvo.replays.replay import VotesTable, replay
from camvo.state.contribution import revision
from camvo.state.state import State
from camvo.votes.registry import describe_aggregation

SCALE = ("1", "2", "3", "4", "5")
PRICES = {"a": 0.1, "b": 0.3, "c": 1.0, "d": 3.0}


def table(items=600, seed=0, bias=0.0, error="absolute"):
    rng = np.random.default_rng(seed)
    truth = rng.integers(5, size=items)
    votes = truth[:, None] + bias + rng.normal(size=(items, 4)) * [0.7, 0.7, 0.6, 0.5]
    return VotesTable(
        SCALE,
        PRICES,
        np.ones((items, 2)),
        np.clip(np.rint(votes), 0, 4).astype(np.int64),
        truth,
        aggregation=camvo.OrderedVote(SCALE, error),
    )


@pytest.fixture(scope="module")
def trace():
    return replay(camvo.Joint(), table(), window=16)


def test_first_rounds_ask_everyone_and_later_ones_stop_early(trace):
    assert trace.asked[:32].all()
    assert trace.asked[300:].mean() < 0.9


def test_answers_are_about_as_good_as_the_median_of_all(trace):
    one = table()
    median = np.median(one.votes, axis=1)
    assert np.abs(trace.labels - one.truth).mean() < np.abs(median - one.truth).mean() + 0.05


def test_score_is_the_expected_reward(trace):
    reward = 1.0 - np.abs(trace.labels - table().truth) / 4.0
    assert trace.scores.mean() == pytest.approx(reward.mean(), abs=0.05)


def test_people_who_rate_lower_than_all_models_are_followed():
    biased = table(bias=1.0)
    human = np.arange(600) < 60
    free, taught = (
        replay(camvo.Joint(), biased, window=16, human=who) for who in (np.zeros(600, bool), human)
    )
    errors = [np.abs(each.labels - biased.truth)[60:].mean() for each in (free, taught)]
    assert errors[1] < 0.7 * errors[0]


def test_a_model_that_answers_every_other_time_costs_twice_its_price_in_plans():
    policy, state, prices = camvo.Joint(), State(2), dict.fromkeys("abc", 1.0)
    scale = {"q": Observation(state, np.array([1.0, 0.0]), SCALE, camvo.OrderedVote(SCALE))}
    for number in range(36):
        plan = policy.plan(scale, prices)
        said = {arm: {"q": SCALE[number % 5]} for arm in prices}
        said |= {"c": {}} if number % 2 else {}
        state.add(policy.contribution(plan, "q", said, policy.decide(plan, said)["q"].label))
    paid = policy.plan(scale, prices).stages.prices
    assert paid["c"] / paid["a"] == pytest.approx(37 / 19, rel=0.05)


def test_agreement_asks_all_models_about_a_scale():
    assert replay(camvo.Joint(agreement=0.95), table(items=60), window=16).asked.all()


def test_free_student_has_no_part_in_a_scale():
    one = replace(table(items=50), texts=["words"] * 50)
    assert (replay(camvo.Joint(), one).student == -1).all()


def test_state_of_a_scale_survives_a_snapshot():
    question = camvo.Question(
        SCALE, prices=PRICES, dimension=2, aggregation=camvo.OrderedVote(SCALE), policy=camvo.Joint()
    )
    one = table(items=60)
    for row in one.votes.tolist():
        task = question.task([1.0, 0.0])
        said = dict(zip(PRICES, (SCALE[vote] for vote in row), strict=True))
        while models := task.ask():
            task.add({model: said[model] for model in models})
        task.learn()
    again = camvo.Question(
        SCALE,
        prices=PRICES,
        aggregation=camvo.OrderedVote(SCALE),
        policy=camvo.Joint(),
        state=State.restore(question.state.snapshot()),
    )
    first, second = question.task([0.0, 1.0]), again.task([0.0, 1.0])
    assert first.ask() == second.ask()
    for task in (first, second):
        while models := task.ask():
            task.add(dict.fromkeys(models, "4"))
    assert first.decide() == second.decide()
    assert first.decide().label == "4"


def test_label_of_a_person_that_came_first_can_be_taken_back_although_models_said_how_sure_they_are():
    policy, state, context = camvo.Joint(), State(2), np.array([1.0, 0.0])
    scale = camvo.OrderedVote(SCALE)
    plan = policy.plan({"q": Observation(state, context, SCALE, scale)}, PRICES)
    sure = dict.fromkeys(PRICES, 0.9)
    at_once = policy.contribution(
        plan,
        "q",
        {arm: {"q": "2"} for arm in PRICES},
        "1",
        human=True,
        confidences={arm: {"q": share} for arm, share in sure.items()},
    )
    description = plan.describe("q") | {"aggregation": describe_aggregation(scale), "confidences": sure}
    stored = TaughtRound.stored(description, context, dict.fromkeys(PRICES, "2"))
    state.add(at_once)
    state.add(revision(stored.contribution("1", human=True), stored.contribution("2")))
    assert (state.kept_rounds.rounds, state.kept_rounds.owed.total()) == ([], 0)


def test_plan_describes_the_scale():
    question = camvo.Question(
        SCALE, prices=PRICES, dimension=2, aggregation=camvo.OrderedVote(SCALE), policy=camvo.Joint()
    )
    described = question.task([1.0, 0.0]).plan.describe("question")
    assert described["scale"]["error"] == "absolute"
    assert "joint" not in described


def test_table_whose_labels_are_not_its_scale_is_refused():
    with pytest.raises(camvo.InvalidParameterError, match="scale"):
        replace(table(), aggregation=camvo.OrderedVote(("1", "2", "3")))
