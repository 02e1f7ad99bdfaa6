from __future__ import annotations

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from camvo.state.contribution import Contribution, KeptRound, KeptRounds, Restart
from camvo.state.state import State


def kept_round(number, label="yes"):
    return KeptRound.of({"a": "yes", f"b{number}": None}, label, {"a": 0.5})


def kept_rounds(*numbers):
    rounds = KeptRounds()
    for number in numbers:
        rounds.add(kept_round(number))
    return rounds


def test_a_removed_round_is_gone():
    rounds = kept_rounds(1, 2, 3)
    rounds.remove(kept_round(2))
    assert rounds.rounds == [kept_round(1), kept_round(3)]


def test_a_round_removed_before_it_is_added_never_appears():
    rounds = kept_rounds(1)
    rounds.remove(kept_round(2))
    rounds.add(kept_round(2))
    assert rounds.rounds == [kept_round(1)]
    assert not rounds.owed


def test_rounds_read_back_are_the_same():
    rounds = kept_rounds(1, 2)
    rounds.remove(kept_round(5))
    again = KeptRounds.from_list(json.loads(json.dumps(rounds.to_list())))
    assert (again.rounds, again.owed) == (rounds.rounds, rounds.owed)


def test_the_latest_rounds_are_one_object_until_one_of_them_is_removed():
    rounds = kept_rounds(*range(105))
    before = rounds.latest(1000)
    rounds.add(kept_round(105))
    assert rounds.latest(1000) is before
    rounds.remove(kept_round(3))
    assert rounds.latest(1000) is not before


@given(st.integers(1, 400), st.integers(1, 400))
def test_the_latest_rounds_leave_out_less_than_a_tenth(size, most):
    rounds = kept_rounds(*range(size))
    latest = list(rounds.latest(most).rounds)
    end = rounds.rounds.index(latest[-1]) + 1
    assert size / 1.1 - 1 <= end <= size
    assert latest == rounds.rounds[max(end - most, 0) : end]


def test_after_removing_all_rounds_the_latest_are_none():
    rounds = kept_rounds(1, 2)
    rounds.latest(10)
    for number in (1, 2):
        rounds.remove(kept_round(number))
    assert rounds.latest(10).rounds == ()


def test_a_round_says_whether_it_asked_everyone_until_patterns_are_forgotten():
    asked = KeptRound.of({"a": "yes"}, "yes", everyone=True)
    state = State(dimension=1)
    state.add(Contribution(np.zeros(1), (), kept=asked))
    restored = State.restore(state.snapshot())
    assert [each.everyone for each in restored.kept_rounds.rounds] == [True]
    restored.add(Contribution.of_restart(Restart("stops", 0), 1))
    assert [each.everyone for each in restored.kept_rounds.rounds] == [False]
    restored.add(Contribution(np.zeros(1), (), rounds=0, dropped=asked))
    assert not restored.kept_rounds.rounds
