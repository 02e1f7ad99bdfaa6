from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from camvo.state.kept_rounds import CastVote, KeptRound, KeptRounds


def row(number, label="yes"):
    return KeptRound(
        (CastVote("a", "yes", 0.5), CastVote("b", None, float(number))), label, everyone=number % 2 == 0
    )


def kept(*numbers):
    rows = KeptRounds()
    for number in numbers:
        rows.add(row(number))
    return rows


def test_what_is_taken_back_is_gone():
    rows = kept(1, 2, 3)
    rows.remove(row(2))
    assert rows.rounds == [row(1), row(3)]


def test_a_row_that_is_taken_back_before_it_comes_never_does():
    rows = kept(1)
    rows.remove(row(2))
    rows.add(row(2))
    assert rows.rounds == [row(1)]
    assert not rows.owed


def test_rows_read_back_are_the_same():
    rows = kept(1, 2)
    rows.remove(row(5))
    again = KeptRounds.from_list(json.loads(json.dumps(rows.to_list())))
    assert (again.rounds, again.owed) == (rows.rounds, rows.owed)


def test_the_head_is_one_object_while_nothing_in_it_changes():
    rows = kept(*range(105))
    before = rows.latest(1000)
    rows.add(row(105))
    assert rows.latest(1000) is before
    rows.remove(row(3))
    assert rows.latest(1000) is not before


@given(st.integers(1, 400), st.integers(1, 400))
def test_the_head_is_the_latest_rows_but_for_a_tenth_of_all(size, most):
    rows = kept(*range(size))
    head = list(rows.latest(most).rounds)
    end = rows.rounds.index(head[-1]) + 1
    assert size / 1.1 - 1 <= end <= size
    assert head == rows.rounds[max(end - most, 0) : end]


def test_the_head_of_rows_that_were_all_taken_back_is_empty():
    rows = kept(1, 2)
    rows.latest(10)
    for number in (1, 2):
        rows.remove(row(number))
    assert rows.latest(10).rounds == ()


def test_other_weights_leave_out_the_votes_that_have_none():
    assert row(1).weighted({"a": 0.0, "b": 2.0}).votes == (CastVote("b", None, 2.0),)


@given(st.lists(st.sampled_from(["ab", "abc", "bc"])), st.lists(st.sampled_from(["ab", "abc", "bc"])))
def test_rounds_that_showed_some_models_are_those_that_asked_everyone_and_all_of_them(come, gone):
    rows = KeptRounds()
    for pool, change in [(pool, rows.add) for pool in come] + [(pool, rows.remove) for pool in gone]:
        for everyone in (True, False):
            change(KeptRound(tuple(CastVote(arm, None, 1.0) for arm in pool), None, everyone))
    for arms in ("a", "c", "ac", ""):
        wanted = sum(row.everyone and set(arms) <= {vote.arm for vote in row.votes} for row in rows.rounds)
        assert (
            rows.everyone_rounds(arms) == KeptRounds.from_list(rows.to_list()).everyone_rounds(arms) == wanted
        )
