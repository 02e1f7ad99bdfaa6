"""Confidences beside right and wrong votes: levels, comparisons, signed counts."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from camvo.state.contribution import (
    TOP_LEVEL,
    ConfidenceSums,
    Contribution,
    KeptRound,
    Restart,
    SureVote,
    level_of,
    revision,
)
from camvo.state.state import State

EQUAL = {"a": 1.0, "b": 1.0, "c": 1.0}
SURE = {"a": 0.9, "b": 0.6}
CONTEXT = np.array([1.0, 0.0])

VOTES = st.builds(
    SureVote, st.sampled_from("ab"), st.sampled_from(["yes", "no"]), st.integers(0, TOP_LEVEL), st.booleans()
)


def kept(label, sure=SURE):
    votes = {"a": "yes", "b": "no", "c": "yes"}
    return KeptRound.of(votes, label, sure)


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_a_level_rises_with_the_confidence(one, other):
    low, high = sorted((one, other))
    assert 0 <= level_of(low) <= level_of(high) <= TOP_LEVEL


@given(st.floats(0.0001, 0.9999))
def test_a_level_is_a_quarter_on_the_logit_scale(confidence):
    logit = math.log(confidence / (1.0 - confidence))
    assert abs((level_of(confidence) - TOP_LEVEL / 2) / 4.0 - logit) <= 0.125 + 1e-9


def test_a_vote_is_right_if_the_others_say_the_same():
    votes = {"a": "yes", "b": "yes", "c": "yes"}
    assert SureVote.compared_with_others(votes, EQUAL, {"a": 0.5}) == (SureVote("a", "yes", 40, True),)


def test_an_arms_own_weight_does_not_make_it_right():
    votes = {"a": "yes", "b": "no", "c": "no"}
    weights = {"a": 9.0, "b": 1.0, "c": 1.0}
    assert SureVote.compared_with_others(votes, weights, {"a": 0.5}) == (SureVote("a", "yes", 40, False),)


def test_the_others_count_by_their_weights():
    votes = {"a": "yes", "b": "yes", "c": "no"}
    weights = {"a": 1.0, "b": 1.0, "c": 2.0}
    assert SureVote.compared_with_others(votes, weights, {"a": 0.5}) == (SureVote("a", "yes", 40, False),)


@pytest.mark.parametrize(
    "votes",
    [{"a": "yes"}, {"a": "yes", "b": "yes", "c": "no"}, {"a": None, "b": "yes", "c": "yes"}],
    ids=["nobody else", "a tie of the others", "no vote"],
)
def test_a_vote_that_cannot_be_compared_is_left_out(votes):
    assert SureVote.compared_with_others(votes, EQUAL, {"a": 0.5}) == ()


def test_only_votes_with_a_confidence_are_compared():
    votes = {"a": "yes", "b": "yes", "c": "yes"}
    assert [vote.arm for vote in SureVote.compared_with_others(votes, EQUAL, SURE)] == ["a", "b"]


@given(st.lists(VOTES), st.lists(VOTES))
def test_taking_votes_back_restores_the_counts(stay, go):
    sums, expected = ConfidenceSums(), ConfidenceSums()
    expected.add(stay, +1)
    for votes, sign in ((go, +1), (stay, +1), (go, -1)):
        sums.add(votes, sign)
    assert sums == expected


@given(st.lists(VOTES, max_size=300))
def test_the_evidence_lags_behind_by_a_fifth_of_the_votes_at_most(votes):
    sums = ConfidenceSums()
    for vote in votes:
        sums.add([vote], +1)
        assert 0.8 * sums.by_others.total() <= sums.evidence.votes <= sums.by_others.total()


def test_the_evidence_is_renewed_when_votes_are_taken_back():
    sums = ConfidenceSums()
    sums.add([SureVote("a", "yes", 3, True)], +1)
    sums.add([SureVote("a", "yes", 3, True)], -1)
    assert sums.evidence.votes == 0


def test_sums_read_back_are_the_same():
    sums = ConfidenceSums()
    sums.add([SureVote("a", "yes", 3, True)] * 9, +1)
    sums.add_people(kept("yes"), +1)
    again = ConfidenceSums.from_list(json.loads(json.dumps(sums.to_list())))
    assert again == sums
    assert again.evidence.by_others == sums.evidence.by_others


def test_a_human_label_says_which_votes_were_right():
    state = State(2)
    state.add(Contribution(CONTEXT, (), kept=kept("yes")))
    assert state.confidences.by_people == {
        SureVote("a", "yes", level_of(0.9), True): 1,
        SureVote("b", "no", level_of(0.6), False): 1,
    }


def test_a_changed_human_label_changes_them_and_a_withdrawn_one_takes_them_back():
    state = State(2)
    voted = Contribution(CONTEXT, (), compared=(SureVote("a", "yes", 49, True),))
    right, wrong = (Contribution(CONTEXT, (), kept=kept(label)) for label in ("yes", "no"))
    state.add(voted, revision(voted, right), revision(right, wrong))
    assert state.confidences.by_people[SureVote("a", "yes", level_of(0.9), False)] == 1
    state.add(revision(wrong, voted))
    assert not state.confidences.by_people
    assert state.confidences.by_others == {SureVote("a", "yes", 49, True): 1}
    state.add(voted.withdrawal())
    assert not state.confidences.by_others


def test_a_contribution_read_back_has_its_comparisons():
    lesson = Contribution(CONTEXT, (), kept=kept("yes"), compared=(SureVote("a", "yes", 49, True),))
    again = Contribution.unpack(lesson.pack())
    assert (again.compared, again.kept) == (lesson.compared, lesson.kept)


def test_a_snapshot_holds_them():
    state = State(2)
    state.add(Contribution(CONTEXT, (), kept=kept("yes"), compared=(SureVote("a", "yes", 49, True),)))
    assert State.restore(state.snapshot()).confidences == state.confidences


def test_a_round_without_confidences_is_stored_as_before():
    assert kept("yes", sure={}).to_list()[0] == [["a", "yes"], ["b", "no"], ["c", "yes"]]


# an arm that continues with another history


def compared_vote(arm, **fields):
    return Contribution(np.zeros(1), (), compared=(SureVote(arm, "yes", 50, right=True),), **fields)


def test_a_restart_of_an_arm_puts_its_confidences_away_and_leaves_those_of_others():
    state = State(1)
    state.add(compared_vote("a"), compared_vote("b"))
    state.add(Contribution.of_restart(Restart("arm", 0, arm="a", history=1), 1))
    assert {vote.arm for vote in state.confidences.by_others} & {"a", "b"} == {"b"}
    assert {vote.arm for vote in state.confidences.evidence.by_others} & {"a", "b"} <= {"b"}


def test_a_round_from_before_a_restart_is_withdrawn_from_the_history_that_it_taught():
    state, lesson = State(1), compared_vote("a")
    state.add(lesson)
    state.add(Contribution.of_restart(Restart("arm", 0, arm="a", history=1), 1))
    state.add(compared_vote("a", histories={"a": 1}))
    state.add(lesson.withdrawal())
    assert dict(state.confidences.by_others) == {SureVote("a", "yes", 50, right=True): 1}
