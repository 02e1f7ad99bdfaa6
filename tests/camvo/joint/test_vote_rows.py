"""Votes as numbers: what a row keeps, and which rounds count."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from camvo.joint.votes import VoteRows, closest_group, renumber, row_of
from camvo.state.exploration import SILENT, UNASKED, VotePattern, _canonical

ARMS = ("a", "b", "c")
THREE, TWO = ("neg", "neutral", "pos"), ("neg", "pos")


@given(st.lists(st.lists(st.integers(-2, 4), min_size=4, max_size=4), min_size=1, max_size=8))
def test_renumbering_is_the_canonical_numbering_of_vote_patterns(rows):
    expected = [_canonical(number if number < 0 else str(number) for number in row) for row in rows]
    assert [tuple(row) for row in renumber(np.array(rows)).tolist()] == expected


def test_with_more_labels_a_row_numbers_them_as_they_appear():
    assert row_of({"a": "pos", "b": "neg", "c": "pos"}, ARMS, THREE) == ((0, 1, 0), ["pos", "neg"])


def test_with_two_labels_a_number_is_the_label():
    assert row_of({"b": "pos"}, ARMS, ("pos", "neg")) == ((UNASKED, 1, UNASKED), ["neg", "pos"])


@pytest.mark.parametrize("labels", [TWO, THREE])
@pytest.mark.parametrize("vote", [None, "angry"], ids=["silent", "outside the label set"])
def test_an_arm_without_a_vote_for_a_label_counts_as_not_asked(labels, vote):
    assert row_of({"a": "neg", "b": vote}, ARMS, labels) == row_of({"a": "neg"}, ARMS, labels)


def table(patterns, labels=THREE, arms=ARMS):
    rows = VoteRows.of(patterns, arms, labels)
    return {
        tuple(row): (count, partial)
        for row, count, partial in zip(rows.rows.tolist(), rows.counts, rows.partial, strict=True)
    }


def pattern(votes, *, everyone=True, labels=(), arms=ARMS):
    return VotePattern.of(arms, votes, everyone=everyone, labels=labels)


def test_rounds_that_asked_all_arms_are_counted_apart_from_others():
    votes = {"a": "x", "b": "y", "c": "x"}
    patterns = {pattern(votes): 3, pattern(votes, everyone=False): 2}
    assert table(patterns) == {(0, 1, 0): (3.0, 2.0)}


def test_a_round_before_an_arm_joined_did_not_ask_all():
    early = pattern({"a": "x", "b": "x"}, arms=("a", "b"))
    assert table({early: 4}) == {(0, 0, UNASKED): (0.0, 4.0)}


def test_the_votes_of_an_arm_that_has_left_are_left_out():
    assert table({pattern({"a": "x", "b": "y", "c": "y"}): 1}, arms=("b", "c")) == {(0, 0): (1.0, 0.0)}


def test_a_silent_arm_was_asked():
    assert table({pattern({"a": "x", "b": None, "c": "x"}): 1}) == {(0, SILENT, 0): (1.0, 0.0)}


def test_with_two_labels_only_patterns_that_name_them_count():
    votes = {"a": "pos", "b": "pos", "c": "neg"}
    assert table({pattern(votes): 5, pattern(votes, labels=TWO): 2}, TWO) == {(1, 1, 0): (2.0, 0.0)}


def test_votes_for_labels_that_are_not_distinguished_count_as_none():
    votes = {"a": "pos", "b": "neutral", "c": "neg"}
    assert table({pattern(votes, labels=THREE): 1}, TWO) == {(1, SILENT, 0): (1.0, 0.0)}


def test_patterns_that_name_three_labels_give_the_rows_of_those_that_do_not():
    votes = {"a": "pos", "b": "neutral", "c": "neg"}
    assert table({pattern(votes, labels=THREE): 1}) == table({pattern(votes): 1})


def test_without_rounds_there_are_no_rows():
    assert VoteRows.of({}, ARMS, THREE).rows.shape == (0, 3)


@pytest.mark.parametrize("parts", [(1.0, -1.0), (-1.0, 1.0), (1.0, -1.0 + 1e-15), (-1.0, 1.0 + 1e-15)])
def test_arms_that_agree_less_than_expected_are_no_group_however_they_are_rounded(parts, monkeypatch):
    vectors = np.array([[1.0, 1.0], parts]).T / np.sqrt(2.0)
    monkeypatch.setattr(np.linalg, "eigh", lambda _: (np.array([-0.1, 0.1]), vectors))
    assert closest_group(np.array([[0.0, -0.1], [-0.1, 0.0]])) == ([], 0.0)
