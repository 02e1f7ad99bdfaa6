"""Labels in an order: the errors that an answer makes, and what is refused."""

from __future__ import annotations

import pytest

from camvo.errors import InvalidParameterError
from camvo.votes.aggregation import Ballot
from camvo.votes.labels import OrderedVote
from camvo.votes.registry import describe_aggregation, restore_aggregation

STARS = ("1", "2", "3", "4", "5")


def ballot(votes, weights=None):
    weights = weights or dict.fromkeys(votes, 1.0)
    return Ballot(votes, weights, weights, dict.fromkeys(votes, 0.8))


@pytest.mark.parametrize(
    ("error", "reward"), [("exact", 0.0), ("absolute", 0.5), ("quadratic", 0.75)], ids=str
)
def test_reward_of_a_vote_two_steps_away(error, reward):
    assert OrderedVote(STARS, error).reward("1", "3") == reward


@pytest.mark.parametrize("error", ["exact", "absolute", "quadratic"])
def test_right_vote_earns_one(error):
    assert OrderedVote(STARS, error).reward("4", "4") == 1.0


def test_answer_without_a_model_is_the_weighted_median():
    votes = {"a": "1", "b": "4", "c": "5"}
    assert OrderedVote(STARS).aggregate(ballot(votes), STARS)[0] == "4"
    assert OrderedVote(STARS).aggregate(ballot(votes, {"a": 3.0, "b": 1.0, "c": 1.0}), STARS)[0] == "1"


@pytest.mark.parametrize(("second", "middle"), [("3", "2"), ("4", "3"), ("2", "2")])
def test_answer_of_two_that_differ_is_halfway_and_upwards(second, middle):
    assert OrderedVote(STARS).aggregate(ballot({"a": "1", "b": second}), STARS)[0] == middle


def test_positions_count_and_not_names():
    moods = OrderedVote(("poor", "fair", "good"), "absolute")
    assert moods.aggregate(ballot({"a": "poor", "b": "good", "c": "fair"}), moods.scale)[0] == "fair"


def test_votes_without_weight_count_alike():
    votes = {"a": "2", "b": "2", "c": "5"}
    assert OrderedVote(STARS).aggregate(ballot(votes, dict.fromkeys(votes, 0.0)), STARS)[0] == "2"


def test_vote_outside_the_scale_is_refused():
    with pytest.raises(InvalidParameterError, match="outside"):
        OrderedVote(STARS).aggregate(ballot({"a": "6"}), STARS)


@pytest.mark.parametrize(
    "scale", [("1", "2"), tuple(str(number) for number in range(12)), ("1", "2", "2")], ids=len
)
def test_scale_of_too_few_or_too_many_or_equal_labels_is_refused(scale):
    with pytest.raises(InvalidParameterError, match="a scale has"):
        OrderedVote(scale)


def test_unknown_error_is_refused():
    with pytest.raises(InvalidParameterError, match="exact, absolute, quadratic"):
        OrderedVote(STARS, "cubic")


def test_description_restores_the_same_vote():
    vote = OrderedVote(STARS, "quadratic")
    assert restore_aggregation(describe_aggregation(vote)) == vote
