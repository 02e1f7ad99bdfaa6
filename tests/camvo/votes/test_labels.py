from __future__ import annotations

import math
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camvo.errors import InvalidParameterError
from camvo.votes.labels import label_posterior, weighted_vote

LABELS = ("red", "green", "blue")
electorate = st.lists(
    st.tuples(st.sampled_from(LABELS), st.floats(0.0, 1.0), st.floats(0.0, 1.0)), min_size=1, max_size=7
)


def columns(rows):
    names = [f"arm {position}" for position in range(len(rows))]
    return tuple(dict(zip(names, column, strict=True)) for column in zip(*rows, strict=True))


def test_the_heavier_label_wins_against_the_greater_number():
    votes = {"a": "red", "b": "green", "c": "green"}
    weights = {"a": 1.0, "b": 0.4, "c": 0.5}
    assert weighted_vote(votes, weights, LABELS, dict.fromkeys(votes, 0.5)) == "red"


@given(electorate)
@settings(deadline=None)
def test_the_winner_has_the_largest_sum(rows):
    votes, weights, lower = columns(rows)
    totals = {label: sum(w for v, w, _ in rows if v == label) for label in LABELS}
    assert totals[weighted_vote(votes, weights, LABELS, lower)] >= max(totals.values()) - 2e-12


def test_a_tie_goes_to_the_larger_sum_of_lower_bounds():
    votes, weights = {"a": "red", "b": "green"}, {"a": 0.5, "b": 0.5}
    assert weighted_vote(votes, weights, LABELS, {"a": 0.8, "b": 0.9}) == "green"


def test_a_tie_of_both_sums_goes_to_the_label_that_comes_first_in_the_config():
    votes, same = {"a": "green", "b": "blue"}, {"a": 0.5, "b": 0.5}
    assert weighted_vote(votes, same, LABELS, same) == "green"
    assert weighted_vote(votes, same, LABELS[::-1], same) == "blue"


def test_sums_closer_than_1e_12_are_tied():
    votes = {"a": "blue", "b": "red"}
    lower = {"a": 0.5, "b": 0.6}
    assert weighted_vote(votes, {"a": 0.5 + 5e-13, "b": 0.5}, LABELS, lower) == "red"
    assert weighted_vote(votes, {"a": 0.5 + 2e-12, "b": 0.5}, LABELS, lower) == "blue"


def test_lower_bounds_closer_than_1e_12_are_tied():
    votes, same = {"a": "blue", "b": "red"}, {"a": 0.5, "b": 0.5}
    assert weighted_vote(votes, same, LABELS, {"a": 0.7 + 5e-13, "b": 0.7}) == "red"


def test_rounding_does_not_decide_a_tie():
    votes = {"a": "blue", "b": "blue", "c": "red"}
    weights = {"a": 0.1, "b": 0.2, "c": 0.3}
    assert weighted_vote(votes, weights, LABELS, {"a": 0.1, "b": 0.1, "c": 0.9}) == "red"


def test_a_vote_without_any_weight_still_elects_a_label_that_was_voted_for():
    assert weighted_vote({"a": "blue"}, {"a": 0.0}, LABELS, {"a": 0.0}) == "blue"


@given(electorate.filter(lambda rows: len(rows) <= 5))
@settings(deadline=None, max_examples=30)
def test_the_order_of_the_voters_changes_no_bit(rows):
    outcomes = set()
    for order in permutations(range(len(rows))):
        votes, weights, lower = (
            {name: c[name] for name in [f"arm {i}" for i in order]} for c in columns(rows)
        )
        chances = label_posterior(votes, lower, LABELS)
        outcomes.add((weighted_vote(votes, weights, LABELS, lower), tuple(chances.items())))
    assert len(outcomes) == 1


@given(electorate)
@settings(deadline=None)
def test_the_posterior_sums_to_1(rows):
    votes, _, correctness = columns(rows)
    chances = label_posterior(votes, correctness, LABELS)
    assert list(chances) == list(LABELS)
    assert math.fsum(chances.values()) == pytest.approx(1.0, abs=1e-12)
    assert all(0.0 <= chance <= 1.0 for chance in chances.values())


def test_the_posterior_of_two_labels_is_bayes_rule_by_hand():
    chances = label_posterior(
        {"a": "yes", "b": "yes", "c": "no"}, {"a": 0.9, "b": 0.6, "c": 0.7}, ("yes", "no")
    )
    # P(votes | yes) = 0.9 · 0.6 · 0.3 = 0.162, P(votes | no) = 0.1 · 0.4 · 0.7 = 0.028, both labels at ½.
    assert chances == pytest.approx({"yes": 0.162 / 0.190, "no": 0.028 / 0.190}, abs=1e-12)


def test_the_posterior_of_three_labels_shares_an_error_among_the_other_two():
    chances = label_posterior({"a": "red", "b": "green"}, {"a": 0.8, "b": 0.5}, LABELS)
    # red: 0.8 · 0.25; green: 0.1 · 0.5; blue: 0.1 · 0.25; together 0.275.
    assert chances == pytest.approx({"red": 0.2 / 0.275, "green": 0.05 / 0.275, "blue": 0.025 / 0.275})


def test_an_arm_that_guesses_does_not_change_the_posterior():
    assert label_posterior({"a": "red"}, {"a": 1 / 3}, LABELS) == pytest.approx(dict.fromkeys(LABELS, 1 / 3))


def test_certain_arms_that_contradict_each_other_leave_finite_chances():
    chances = label_posterior({"a": "red", "b": "blue"}, {"a": 1.0, "b": 1.0}, LABELS)
    assert chances["red"] == chances["blue"] == pytest.approx(0.5, abs=1e-5)


def test_a_single_label_is_certain():
    assert label_posterior({"a": "red"}, {"a": 0.2}, ["red"]) == {"red": 1.0}


@pytest.mark.parametrize("votes", [{}, {"a": "purple"}], ids=["no vote", "unknown label"])
def test_votes_that_cannot_be_counted_are_refused(votes):
    with pytest.raises(InvalidParameterError):
        weighted_vote(votes, {"a": 1.0}, LABELS, {"a": 1.0})
    with pytest.raises(InvalidParameterError):
        label_posterior(votes, {"a": 1.0}, LABELS)


def test_a_refused_label_is_not_repeated_in_the_message():
    with pytest.raises(InvalidParameterError) as refused:
        weighted_vote({"a": "text of a task"}, {"a": 1.0}, LABELS, {"a": 1.0})
    assert "text of a task" not in str(refused.value)
