"""The histories of arms: a changed arm starts a new one, and nothing of the old one is lost."""

from __future__ import annotations

import json

import numpy as np
import pytest
from same_state import assert_same_state

from camvo.state.arm import _MOST_VERSIONS, _RUN, Histories
from camvo.state.contribution import Change, Contribution, KeptRound, Restart, revision
from camvo.state.exploration import ExplorationRound, VotePattern
from camvo.state.state import State

ARMS = ("a", "b", "c")


def lesson(number=0, reward=1.0, histories=None, versions=None):
    """A round that asked everyone, with rewards for all arms, kept whole."""
    rng = np.random.default_rng(number)
    votes = {arm: str(rng.integers(2)) for arm in ARMS}
    return Contribution(
        rng.normal(size=2),
        tuple(Change(arm, 0.5, None, reward) for arm in ARMS),
        exploration=ExplorationRound(VotePattern.of(ARMS, votes, everyone=True), None),
        kept=KeptRound.of(votes, "1"),
        histories=histories or {},
        versions=versions or {},
    )


def state_of(*contributions):
    state = State(2)
    state.add(*contributions)
    return state


def restart(kind="arm", number=0, arm="a", history=1, **fields):
    return Contribution.of_restart(Restart(kind, number, arm=arm, history=history, **fields), 2)


def versions(*names):
    return [lesson(number, versions={"a": name}) for number, name in enumerate(names)]


def test_a_changed_arm_has_no_rewards_and_the_others_keep_theirs():
    state = state_of(*map(lesson, range(5)), restart())
    assert state.get("a") is None
    assert state["b"].rewards == 5


def test_the_patterns_before_a_change_do_not_show_the_changed_arm():
    state = state_of(*map(lesson, range(5)), restart())
    patterns = state.exploration.evidence.patterns
    assert all("a" not in pattern.arms for pattern in patterns)
    assert sum(count for pattern, count in patterns.items() if {"b", "c"} <= {*pattern.arms}) == 5


def test_the_kept_rounds_before_a_change_do_not_show_the_changed_arm():
    state = state_of(*map(lesson, range(5)), restart())
    pools = [{vote.arm for vote in round_.votes} for round_ in state.kept_rounds.rounds]
    assert len(pools) == 5
    assert all(pool >= {"b", "c"} and "a" not in pool for pool in pools)


def test_the_correlation_with_a_changed_arm_starts_anew():
    state = state_of(*(lesson(number, reward=number % 2) for number in range(9)))
    assert state.pairs.correlation(["a", "b"])[0, 1] == pytest.approx(1.0)
    state.add(restart())
    assert state.pairs.correlation(["a", "b"])[0, 1] == 0.0
    assert state.pairs.correlation(["b", "c"])[0, 1] == pytest.approx(1.0)


def test_going_back_to_a_history_restores_everything_that_it_taught():
    state = state_of(*map(lesson, range(5)), restart(), restart(number=1, history=0))
    assert_same_state(state, state_of(*map(lesson, range(5))))


def test_a_human_label_on_a_round_before_the_change_corrects_the_old_history():
    before, after = lesson(1), lesson(1, reward=0.0)
    state = state_of(lesson(1), restart(), lesson(2, histories={"a": 1}), revision(before, after))
    assert state["a"].reward_sum == 1.0
    state.add(restart(number=1, history=0))
    assert state["a"].reward_sum == 0.0


def test_a_round_that_was_planned_before_the_change_counts_for_the_old_history():
    state = state_of(lesson(1), restart(), lesson(2))
    assert state.get("a") is None
    assert state["b"].rewards == 2


def test_withdrawing_a_round_from_before_the_change_leaves_no_trace():
    state = state_of(lesson(1), lesson(2), restart(), lesson(2).withdrawal())
    assert_same_state(state, state_of(lesson(1), restart()))


def test_of_two_restarts_with_one_number_the_first_counts():
    state = state_of(lesson(1), restart(), restart(arm="b"))
    assert state.get("a") is None
    assert state["b"].rewards == 1
    assert len(state.restarts) == 1


def test_the_state_is_the_same_from_a_snapshot_and_from_the_start():
    contributions = [*map(lesson, range(30)), restart()]
    contributions += [lesson(number, histories={"a": 1}, versions={"a": "v"}) for number in range(30, 60)]
    state = state_of(*contributions[:40])
    again = State.restore(state.snapshot())
    state.add(*contributions[40:])
    again.add(*contributions[40:])
    assert again.snapshot() == state.snapshot()
    one_by_one = State(2)
    for contribution in contributions:
        one_by_one.add(contribution)
    assert (one_by_one.drift, one_by_one.histories) == (state.drift, state.histories)


def test_a_contribution_stores_histories_versions_and_restarts():
    taught = lesson(1, histories={"a": 2}, versions={"a": "v1"})
    unpacked = Contribution.unpack(taught.pack())
    assert (unpacked.histories, unpacked.versions) == ({"a": 2}, {"a": "v1"})
    due = Restart("version", 3, at=7, arm="a", history=2, resumed=True, version="v2", before="v1")
    assert Contribution.unpack(Contribution.of_restart(due, 2).pack()).restart == due


# versions


def test_the_first_version_of_an_arm_starts_no_history():
    assert state_of(*versions(*["v1"] * 50)).restart_due() is None


def test_another_version_starts_a_history_after_a_run_of_answers():
    state = state_of(*versions(*["v1"] * 5, *["v2"] * (_RUN - 1)))
    assert state.restart_due() is None
    state.add(lesson(versions={"a": "v2"}))
    due = state.restart_due()
    assert (due.kind, due.arm, due.history, due.before, due.version) == ("version", "a", 1, "v1", "v2")


def test_versions_that_alternate_start_no_history():
    assert state_of(*versions(*["v1", "v2"] * 200)).restart_due() is None


def test_a_version_that_comes_back_goes_on_with_its_history():
    state = State(2)
    for _ in range(10):
        for name in ("v1", "v2"):
            for taught in versions(*[name] * _RUN):
                state.add(taught)
                state.restart_if_due()
    assert state.histories.begun == {"a": 1}
    assert [restart.history for restart in state.restarts[:3]] == [1, 0, 1]
    assert [restart.resumed for restart in state.restarts[:3]] == [False, True, True]


def test_a_provider_that_reports_ever_new_versions_starts_few_histories():
    state = State(2)
    for name in range(40):
        for taught in versions(*[f"v{name}"] * _RUN):
            state.add(taught)
            state.restart_if_due()
    assert state.histories.begun == {"a": _MOST_VERSIONS - 1}


def test_only_the_arm_whose_version_changes_starts_a_history():
    state = state_of(*versions(*["v1"] * 5, *["v2"] * _RUN))
    state.restart_if_due()
    assert state.histories.current == {"a": 1}


def test_stored_histories_read_back():
    state = state_of(*versions(*["v1"] * 5, *["v2"] * _RUN))
    state.restart_if_due()
    stored = json.loads(json.dumps(state.histories.to_list()))
    assert Histories.from_list(stored) == state.histories
