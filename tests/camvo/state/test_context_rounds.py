"""The contexts of rounds that asked all arms: added, taken back, and read from a snapshot."""

from __future__ import annotations

import numpy as np

from camvo.state.contribution import Contribution, Restart
from camvo.state.exploration import _MOST_CONTEXTS, ContextRounds, ExplorationRound, VotePattern
from camvo.state.state import State


def pattern(number=0, *, everyone=True):
    votes = {"a": "yes", "b": "no" if number % 2 else "yes"}
    return VotePattern.of(("a", "b"), votes, everyone=everyone)


def context(number):
    return np.array([float(number), 0.5])


def lesson(number, *, everyone=True):
    explored = ExplorationRound(pattern(number, everyone=everyone), None)
    return Contribution(context(number), (), exploration=explored)


def state_of(*lessons):
    state = State(dimension=2)
    state.add(*lessons)
    return state


def test_a_round_that_asked_all_arms_is_kept_with_its_context():
    rounds = state_of(lesson(3)).context_rounds
    assert rounds.patterns == [pattern(3)]
    assert rounds.to_array().tolist() == [[3.0, 0.5]]


def test_a_round_that_stopped_early_is_not_kept():
    assert not state_of(lesson(1, everyone=False)).context_rounds.patterns


def test_a_withdrawn_round_is_gone():
    state = state_of(lesson(1), lesson(2), lesson(3))
    state.add(lesson(2).withdrawal())
    assert state.context_rounds.to_array()[:, 0].tolist() == [1.0, 3.0]
    assert state.context_rounds.latest.contexts[:, 0].tolist() == [1.0, 3.0]


def test_a_corrected_round_counts_once():
    state = state_of(lesson(1))
    state.add(Contribution(context(1), (), rounds=0))
    assert len(state.context_rounds.patterns) == 1


def test_only_the_latest_rounds_are_kept():
    rounds = ContextRounds()
    for number in range(_MOST_CONTEXTS + 10):
        rounds.add(pattern(number), context(number), +1)
    assert len(rounds.latest.patterns) <= _MOST_CONTEXTS
    for number in range(_MOST_CONTEXTS + 10, 2 * _MOST_CONTEXTS):
        rounds.add(pattern(number), context(number), +1)
    assert len(rounds.latest.patterns) == _MOST_CONTEXTS
    kept = len(rounds.patterns)
    assert kept <= 1.2 * _MOST_CONTEXTS + 1
    rounds.add(pattern(0), context(0), -1)  # is not kept any more
    assert len(rounds.patterns) == kept


def test_a_restored_state_has_the_same_view_once_rounds_were_dropped():
    state = state_of(*[lesson(number) for number in range(_MOST_CONTEXTS + 300)])
    restored = State.restore(state.snapshot())
    mine, theirs = state.context_rounds.latest, restored.context_rounds.latest
    assert mine.contexts.tobytes() == theirs.contexts.tobytes()
    for number in range(200):
        for each in (state, restored):
            each.add(lesson(number))
        mine, theirs = state.context_rounds.latest, restored.context_rounds.latest
        assert mine.contexts.shape == theirs.contexts.shape


def test_the_view_lags_at_most_a_fifth_behind():
    rounds = ContextRounds()
    views = set()
    for number in range(500):
        rounds.add(pattern(number), context(number), +1)
        assert len(rounds.latest.patterns) >= len(rounds.patterns) / 1.2 - 1.0
        views.add(rounds.latest)
    assert len(views) < 40


def test_a_restored_state_has_the_same_rounds_and_the_same_view():
    state = state_of(*[lesson(number) for number in range(44)])
    restored = State.restore(state.snapshot())
    assert restored.context_rounds.to_list() == state.context_rounds.to_list()
    assert restored.context_rounds.to_array().tobytes() == state.context_rounds.to_array().tobytes()
    mine, theirs = state.context_rounds.latest, restored.context_rounds.latest
    assert mine.patterns == theirs.patterns
    assert mine.contexts.tobytes() == theirs.contexts.tobytes()


def test_a_restart_of_an_arm_renames_it_in_the_rounds():
    state = state_of(lesson(1))
    state.add(Contribution.of_restart(Restart("arm", 0, arm="a", history=1), 2))
    assert "a" not in state.context_rounds.patterns[0].arms


def test_a_restart_of_the_stops_forgets_the_rounds():
    state = state_of(lesson(1))
    state.add(Contribution.of_restart(Restart("stops", 0), 2))
    assert not state.context_rounds.patterns
