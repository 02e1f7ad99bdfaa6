from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from camvo.errors import InvalidParameterError
from camvo.votes.aggregation import Ballot
from camvo.votes.labels import label_posterior
from camvo.votes.sets import SubsetVote

LABELS = ("a", "b", "c", "d")
VOTE = SubsetVote(4)
subsets = st.sets(st.sampled_from(LABELS)).map(lambda chosen: json.dumps(sorted(chosen)))


def ballot(votes, weights=None, ties=None, correctness=None):
    ones = dict.fromkeys(votes, 1.0)
    return Ballot(votes, weights or ones, ties or ones, correctness or dict.fromkeys(votes, 0.8))


def answer(votes, **columns):
    return VOTE.aggregate(ballot(votes, **columns), LABELS)[0]


def test_a_label_is_in_the_answer_if_more_than_half_of_the_weight_chose_it():
    votes = {"x": '["a","b"]', "y": '["b","c"]', "z": "[]"}
    assert answer(votes) == '["b"]'
    assert answer(votes, weights={"x": 3.0, "y": 1.0, "z": 1.0}) == '["a","b"]'


def test_a_tie_goes_to_the_greater_lower_bound_and_then_to_leaving_out():
    votes = {"x": '["a"]', "y": "[]"}
    assert answer(votes) == "[]"
    assert answer(votes, ties={"x": 0.9, "y": 0.8}) == '["a"]'


def test_the_reward_is_the_share_of_labels_judged_alike():
    assert VOTE.reward('["a","b"]', '["b","c"]') == 0.5
    assert VOTE.reward("[]", '["a","b","c","d"]') == 0.0


@given(subsets, subsets)
def test_the_reward_is_symmetric_and_one_for_the_same_subset_alone(left, right):
    assert VOTE.reward(left, right) == VOTE.reward(right, left)
    assert (VOTE.reward(left, right) == 1.0) == (left == right)


@given(st.lists(subsets, min_size=1, max_size=5), st.data())
def test_the_score_is_the_mean_posterior_of_the_labels_own_votes(cast, data):
    votes = {f"arm {number}": vote for number, vote in enumerate(cast)}
    believed = {arm: data.draw(st.floats(0.01, 0.99)) for arm in votes}
    text, chances = VOTE.aggregate(ballot(votes, correctness=believed), LABELS)
    expected = []
    for label in LABELS:
        chosen = {arm: str(label in json.loads(vote)) for arm, vote in votes.items()}
        expected.append(label_posterior(chosen, believed, ("True", "False"))[str(label in json.loads(text))])
    assert chances == {text: pytest.approx(sum(expected) / 4)}


@given(st.lists(subsets, min_size=1, max_size=5))
def test_the_order_in_which_labels_are_named_does_not_matter(cast):
    votes = {f"arm {number}": vote for number, vote in enumerate(cast)}
    turned = {arm: json.dumps(json.loads(vote)[::-1]) for arm, vote in votes.items()}
    assert answer(votes) == answer(turned)


@pytest.mark.parametrize("vote", ['["e"]', '"a"', "a", "[1]", '{"a": 1}', ""])
def test_a_vote_that_is_not_a_subset_of_the_options_is_refused(vote):
    with pytest.raises(InvalidParameterError):
        answer({"x": vote})


def test_there_has_to_be_a_vote_and_the_right_number_of_labels():
    with pytest.raises(InvalidParameterError):
        answer({})
    with pytest.raises(InvalidParameterError):
        VOTE.guess(("a", "b"))
    with pytest.raises(InvalidParameterError):
        SubsetVote(0)
