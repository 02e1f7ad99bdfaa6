"""What holds for every kind of vote by name; a new one is covered as soon as it is registered."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import pytest
from same_state import assert_same_state

import camvo
from camvo.errors import InvalidParameterError
from camvo.state.state import State
from camvo.votes import registry
from camvo.votes.aggregation import Aggregation, Ballot


@dataclass(frozen=True, kw_only=True)
class Example:
    """A question of one kind: how it is made, three votes on it, and what it must refuse."""

    votes: tuple[str, str, str]
    options: tuple[str, ...] = ()
    arguments: Mapping[str, object] = field(default_factory=dict)
    refused: tuple[str, ...]
    """Votes that do not answer the question."""
    wrong: tuple[Mapping[str, object], ...] = ()
    """Arguments that are out of their range."""


EXAMPLES: Mapping[str, Example] = MappingProxyType(
    {
        "labels": Example(
            votes=("neg", "pos", "pos"),
            options=("neg", "pos"),
            refused=("", "neutral"),
        ),
        "ordered": Example(
            votes=("low", "high", "high"),
            options=("low", "middle", "high"),
            arguments={"scale": ("low", "middle", "high")},
            refused=("", "higher"),
            wrong=({"scale": ("low", "high")}, {"error": "cubic"}),
        ),
        "numeric": Example(
            votes=("1", "4.5", "5"),
            arguments={"low": 1.0, "high": 5.0},
            refused=("", "many", "nan", "6", "-1"),
            wrong=({"high": 1.0}, {"low": float("nan")}, {"rule": "mode"}, {"scale": 0.0}, {"step": 9.0}),
        ),
        "ranking": Example(
            votes=('["x","y","z"]', '["y","x","z"]', '{"x":3,"y":1,"z":2}'),
            options=("x", "y", "z"),
            refused=("", "x", '["x","y"]', '["x","y","z","z"]', '{"x":1,"y":NaN,"z":2}'),
            wrong=({"rule": "condorcet"},),
        ),
        "spans": Example(
            votes=('[[0,5,"x"]]', '[[1,5,"x"],[7,9,"y"]]', "[]"),
            options=("x", "y"),
            refused=("", "nothing", '[[0,5,"z"]]', '[[5,0,"x"]]'),
        ),
        "subset": Example(
            votes=('["x"]', '["x","y"]', "[]"),
            options=("x", "y", "z"),
            arguments={"size": 3},
            refused=("", "x", '["w"]'),
            wrong=({"size": 0},),
        ),
        "open": Example(
            votes=("Ada Lovelace", "ada lovelace.", "Byron"),
            arguments={"comparison": "words"},
            refused=("", "  "),
            wrong=({"size": 1}, {"comparison": "meaning"}),
        ),
        "open_numeric": Example(
            votes=("98", "100", "700"),
            refused=("", "many", "inf"),
            wrong=({"step": 0.0}, {"tolerance": -1.0}, {"low": 2.0, "high": 1.0}),
        ),
    }
)
"""An example of every kind of vote."""

CORRECTNESS = {"a": 0.9, "b": 0.7, "c": 0.6}
WEIGHTS = {"a": 0.8, "b": 0.7, "c": 0.2}


def example_of(name: str) -> Example:
    if name not in EXAMPLES:
        pytest.fail(f"the vote {name!r} has no example; add one to EXAMPLES in {__file__}")
    return EXAMPLES[name]


def vote_named(name: str, **changed: object) -> Aggregation:
    aggregation: Aggregation = registry._AGGREGATIONS[name](**{**example_of(name).arguments, **changed})
    return aggregation


def ballot(votes: Mapping[str, str]) -> Ballot:
    return Ballot(votes, WEIGHTS, WEIGHTS, CORRECTNESS)


def votes_of(name: str) -> dict[str, str]:
    return dict(zip("abc", example_of(name).votes, strict=True))


every_vote = pytest.mark.parametrize("name", registry._AGGREGATIONS)


@every_vote
def test_the_same_votes_have_the_same_answer(name):
    aggregation, votes = vote_named(name), votes_of(name)
    answers = [aggregation.aggregate(ballot(votes), example_of(name).options) for _ in range(2)]
    assert answers[0] == answers[1]


@every_vote
def test_the_order_of_the_models_changes_nothing(name):
    aggregation, votes = vote_named(name), votes_of(name)
    answer, scores = aggregation.aggregate(ballot(votes), example_of(name).options)
    backwards = Ballot(*(dict(reversed(each.items())) for each in (votes, WEIGHTS, WEIGHTS, CORRECTNESS)))
    answer_backwards, scores_backwards = aggregation.aggregate(backwards, example_of(name).options)
    assert answer_backwards == answer
    assert scores_backwards == pytest.approx(scores, abs=1e-12)


@every_vote
def test_every_score_is_in_the_unit_interval(name):
    _, scores = vote_named(name).aggregate(ballot(votes_of(name)), example_of(name).options)
    assert all(0.0 <= score <= 1.0 for score in scores.values())


@every_vote
def test_the_answer_has_a_score(name):
    answer, scores = vote_named(name).aggregate(ballot(votes_of(name)), example_of(name).options)
    assert answer in scores


@every_vote
def test_a_vote_at_random_can_expect_a_reward_in_the_unit_interval(name):
    assert 0.0 <= vote_named(name).guess(example_of(name).options) <= 1.0


@every_vote
def test_every_reward_is_in_the_unit_interval(name):
    aggregation, votes = vote_named(name), example_of(name).votes
    assert all(0.0 <= aggregation.reward(vote, answer) <= 1.0 for vote in votes for answer in votes)


@every_vote
def test_a_vote_is_wholly_right_where_it_is_the_answer(name):
    aggregation = vote_named(name)
    assert [aggregation.reward(vote, vote) for vote in example_of(name).votes] == [1.0] * 3


@every_vote
def test_the_answer_is_itself_a_vote(name):
    aggregation, options = vote_named(name), example_of(name).options
    answer, _ = aggregation.aggregate(ballot(votes_of(name)), options)
    assert aggregation.aggregate(ballot({"a": answer}), options)[0] == answer


@every_vote
def test_one_vote_is_its_own_answer(name):
    aggregation = vote_named(name)
    for vote in example_of(name).votes:
        answer, _ = aggregation.aggregate(ballot({"a": vote}), example_of(name).options)
        assert aggregation.reward(vote, answer) == 1.0


@every_vote
def test_votes_that_weigh_nothing_are_counted_all_the_same(name):
    votes, nothing = votes_of(name), dict.fromkeys("abc", 0.0)
    answer, scores = vote_named(name).aggregate(
        Ballot(votes, nothing, nothing, CORRECTNESS), example_of(name).options
    )
    assert 0.0 <= scores[answer] <= 1.0


@every_vote
def test_the_votes_are_left_as_they_were(name):
    votes = votes_of(name)
    vote_named(name).aggregate(ballot(votes), example_of(name).options)
    assert votes == votes_of(name)


@every_vote
def test_no_vote_at_all_is_refused(name):
    with pytest.raises(InvalidParameterError):
        vote_named(name).aggregate(ballot({}), example_of(name).options)


@every_vote
def test_a_vote_that_does_not_answer_the_question_is_refused(name):
    for vote in example_of(name).refused:
        with pytest.raises(InvalidParameterError):
            vote_named(name).aggregate(ballot({"a": vote}), example_of(name).options)


@every_vote
def test_an_argument_out_of_its_range_is_refused(name):
    for wrong in example_of(name).wrong:
        with pytest.raises(InvalidParameterError):
            vote_named(name, **wrong)


@every_vote
def test_it_survives_being_stored_with_a_round(name):
    described = json.dumps(registry.describe_aggregation(vote_named(name)), allow_nan=False)
    assert registry.restore_aggregation(json.loads(described)) == vote_named(name)


@every_vote
def test_it_survives_pickling(name):
    assert pickle.loads(pickle.dumps(vote_named(name))) == vote_named(name)  # noqa: S301 - our own bytes


@pytest.fixture
def question(name: str) -> camvo.Question:
    """A question of that kind which has learned from one task."""
    asked = camvo.Question(
        example_of(name).options,
        prices=dict.fromkeys("abc", 1.0),
        dimension=2,
        policy=camvo.Baseline(),
        aggregation=vote_named(name),
    )
    task = asked.task([1.0, 0.0])
    task.add(votes_of(name))
    task.learn()
    return asked


@every_vote
def test_undoing_a_round_restores_the_state(name, question):
    before = State.restore(question.state.snapshot())
    task = question.task([0.6, 0.8])
    task.add(votes_of(name))
    task.learn()
    task.learn(human=example_of(name).votes[0])
    task.withdraw()
    assert_same_state(question.state, before)


@every_vote
def test_a_model_is_rewarded_in_full_for_the_label_of_a_person(name, question):
    task = question.task([0.6, 0.8])
    task.add(votes_of(name))
    before = question.state["a"].reward_sum
    task.learn(human=example_of(name).votes[0])
    assert question.state["a"].reward_sum == before + 1.0


@every_vote
def test_a_label_of_a_person_that_does_not_answer_the_question_is_refused(name, question):
    task = question.task([0.6, 0.8])
    task.add(votes_of(name))
    for label in example_of(name).refused:
        with pytest.raises(InvalidParameterError):
            task.learn(human=label)
