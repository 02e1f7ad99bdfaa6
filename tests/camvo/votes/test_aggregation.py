from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lemma_1 import confidence_by_lemma_1

from camvo.errors import InvalidParameterError
from camvo.policies.camvo import CaMVo
from camvo.policies.ensemble import Baseline, Majority
from camvo.policies.policy import Observation
from camvo.policies.teaching import _lesson
from camvo.state.state import State
from camvo.votes.aggregation import Ballot
from camvo.votes.labels import LABEL_VOTE, label_posterior, weighted_vote
from camvo.votes.numbers import NumericVote, _weighted_median
from camvo.votes.rankings import RankingVote

EAST = np.array([1.0, 0.0])
ITEMS = ("a", "b", "c")
PRICES = {"large": 5.0, "small": 1.0, "tiny": 0.5}


def mixed(states):
    """One task with a label, a number and a ranking to give."""
    return {
        "label": Observation(states["label"], EAST, ("yes", "no")),
        "number": Observation(states["number"], EAST, (), NumericVote(0.0, 10.0)),
        "ranking": Observation(states["ranking"], EAST, ITEMS, RankingVote("kemeny")),
    }


def states():
    return {question: State(2) for question in ("label", "number", "ranking")}


GOOD = {"label": "yes", "number": "7", "ranking": '["a","b","c"]'}
POOR = {"label": "no", "number": "2", "ranking": '["c","b","a"]'}


def test_the_label_vote_is_the_weighted_vote_and_its_posterior():
    votes, weights, lower = {"a": "yes", "b": "no"}, {"a": 0.3, "b": 0.4}, {"a": 0.8, "b": 0.6}
    label, chances = LABEL_VOTE.aggregate(Ballot(votes, weights, lower, lower), ("yes", "no"))
    assert label == weighted_vote(votes, weights, ("yes", "no"), lower) == "no"
    assert chances == label_posterior(votes, lower, ("yes", "no"))


@pytest.mark.parametrize("policy", [CaMVo(), Baseline(), Majority()], ids=["camvo", "baseline", "majority"])
def test_one_task_mixes_labels_numbers_and_rankings(policy):
    plan = policy.plan(mixed(states()), PRICES)
    decisions = policy.decide(plan, {"large": GOOD, "small": GOOD, "tiny": POOR})
    assert {question: decision.label for question, decision in decisions.items()} == GOOD
    assert all(0.0 < decision.score < 1.0 for decision in decisions.values())
    assert json.dumps(plan.describe("number"), allow_nan=False)


def test_every_kind_of_question_learns_its_own_reward():
    policy = CaMVo()
    votes = {"large": GOOD, "small": GOOD, "tiny": POOR}
    plan = policy.plan(mixed(states()), PRICES)
    rewards = {
        question: {c.arm: c.added for c in policy.contribution(plan, question, votes, GOOD[question]).changes}
        for question in GOOD
    }
    assert rewards["label"] == {"large": 1.0, "small": 1.0, "tiny": 0.0}
    assert rewards["number"] == {"large": 1.0, "small": 1.0, "tiny": 0.5}
    assert rewards["ranking"] == {"large": 1.0, "small": 1.0, "tiny": 0.0}


def test_a_human_number_is_compared_with_the_votes_as_the_aggregate_is():
    policy = CaMVo()
    plan = policy.plan(mixed(states()), PRICES)
    taught = policy.contribution(plan, "number", {"tiny": {"number": "4"}}, "6.5", human=True)
    assert [change.added for change in taught.changes] == [pytest.approx(0.75)]


def test_a_stored_round_is_taught_again_with_the_reward_of_its_question():
    again = _lesson(EAST, {"a": 0.5}, {"a": "4"}, "9", human=True, reward=NumericVote(0.0, 10.0).reward)
    assert again.changes[0].added == 0.5


@pytest.mark.parametrize("question", ["number", "ranking"])
def test_the_arm_that_is_closer_gains_the_weight(question):
    policy, learnt = CaMVo(n0=5), states()
    close = {"number": "6.9", "ranking": '["a","b","c"]'}
    middling = {"number": "5.0", "ranking": '["b","a","c"]'}
    votes = {"large": close, "small": close, "tiny": middling}
    for _ in range(12):
        plan = policy.plan(mixed(learnt), PRICES)
        decision = policy.decide(plan, votes)[question]
        learnt[question].add(policy.contribution(plan, question, votes, decision.label))
    weights = dict(zip(plan.arms, plan.weights[question], strict=True))
    assert weights["large"] > weights["tiny"] > 0.0


@pytest.mark.parametrize(
    ("aggregation", "options", "guess"),
    [
        (LABEL_VOTE, ("a", "b", "c", "d"), 0.25),
        (NumericVote(-1.0, 5.0), (), 2.0 / 3.0),
        (RankingVote(), ITEMS, 0.5),
    ],
)
def test_a_new_arm_is_expected_half_way_between_a_guess_and_certainty(aggregation, options, guess):
    plan = CaMVo().plan({"q": Observation(State(2), EAST, options, aggregation)}, PRICES)
    assert plan.estimates["q"].correctness == pytest.approx([0.5 + guess / 2.0] * 3)


@pytest.mark.parametrize("options", [(), ("a",), ("a", "a")], ids=str)
def test_a_ranking_of_fewer_than_two_different_items_is_refused(options):
    with pytest.raises(InvalidParameterError, match="two items"):
        CaMVo().plan({"q": Observation(State(2), EAST, options, RankingVote())}, PRICES)


# What δ_A means.


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.01, 1.0)), min_size=1), st.floats(0.0, 1.0))
@settings(deadline=None)
def test_where_more_than_half_of_the_weight_is_within_a_tolerance_so_is_the_median(cast, truth):
    values, weights = zip(*cast, strict=True)
    median = _weighted_median(values, weights)
    errors = np.abs(np.array(values) - truth)
    for tolerance in errors:
        if np.array(weights)[errors <= tolerance].sum() > sum(weights) / 2.0 + 1e-9:
            assert abs(median - truth) <= tolerance + 1e-12


def test_delta_bounds_the_reward_of_the_median_where_tolerances_are_equally_hard():
    # With probability p an arm hits the truth, else it is off by the whole scale: its chance of being
    # within a tolerance is p whatever the tolerance.
    rng = np.random.default_rng(5)
    right, weights = np.array([0.9, 0.8, 0.7, 0.6]), np.array([1.0, 0.9, 0.8, 0.5])
    vote = NumericVote(0.0, 2.0, scale=1.0)
    hits = rng.random((4000, 4)) < right
    off = rng.choice([0.0, 2.0], size=hits.shape)
    rewards = [
        vote.reward(f"{_weighted_median(np.where(hit, 1.0, miss), weights)}", "1")
        for hit, miss in zip(hits, off, strict=True)
    ]
    assert np.mean(rewards) >= confidence_by_lemma_1(right, weights) - 0.02


def test_delta_is_the_reward_of_kemenys_order_where_pairs_are_equally_hard():
    rng = np.random.default_rng(6)
    right, weights = np.array([0.9, 0.8, 0.7]), np.array([1.0, 0.9, 0.8])
    arms = ["x", "y", "z"]
    table = dict(zip(arms, weights, strict=True))
    vote, rewards = RankingVote("kemeny"), []
    for correct in rng.random((4000, 3)) < right:
        votes = {arm: '["a","b"]' if yes else '["b","a"]' for arm, yes in zip(arms, correct, strict=True)}
        answer, _ = vote.aggregate(Ballot(votes, table, table, table), ("a", "b"))
        rewards.append(vote.reward(answer, '["a","b"]'))
    assert np.mean(rewards) == pytest.approx(confidence_by_lemma_1(right, weights), abs=0.02)
