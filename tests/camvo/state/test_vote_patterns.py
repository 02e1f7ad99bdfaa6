from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from camvo.state.contribution import Change, Contribution, revision
from camvo.state.exploration import (
    SILENT,
    UNASKED,
    ExplorationRound,
    ExplorationSums,
    VotePattern,
    _canonical,
)
from camvo.state.state import State

ARMS = ("a", "b", "c", "d")


def contribution(exploration, rounds=1):
    return Contribution(np.array([1.0, 0.0]), (Change("a", 0.5, None, 1.0),), rounds, exploration)


def explored(*groups, right=None):
    return ExplorationRound(VotePattern(ARMS, groups), right)


def test_a_pattern_keeps_which_arms_agreed_but_not_their_labels():
    votes = {"a": "x", "b": "y", "c": "x"}
    assert VotePattern.of(ARMS, votes).groups == (0, 1, 0, UNASKED)
    assert VotePattern.of(ARMS, {arm: label + "!" for arm, label in votes.items()}) == VotePattern.of(
        ARMS, votes
    )


def test_asking_all_arms_by_the_draw_differs_from_asking_all_because_of_the_votes():
    votes = dict.fromkeys(ARMS, "x")
    assert VotePattern.of(ARMS, votes, everyone=True) != VotePattern.of(ARMS, votes)


def test_an_arm_without_a_vote_differs_from_an_arm_that_was_not_asked():
    assert VotePattern.of(ARMS, {"a": None, "b": "y"}).groups == (SILENT, 0, UNASKED, UNASKED)


@given(st.lists(st.sampled_from(["x", "y", "z", SILENT, UNASKED]), max_size=8))
def test_canonical_groups_are_unchanged(names):
    assert _canonical(_canonical(names)) == _canonical(names)


def test_a_contribution_stores_its_exploration_round():
    unpacked = Contribution.unpack(contribution(explored(0, 0, 1, UNASKED, right=True)).pack())
    assert unpacked.exploration == explored(0, 0, 1, UNASKED, right=True)
    assert Contribution.unpack(contribution(None).pack()).exploration is None


exploration_rounds = st.builds(
    lambda votes, everyone, right: ExplorationRound(VotePattern.of(ARMS, votes, everyone=everyone), right),
    st.dictionaries(st.sampled_from(ARMS), st.sampled_from(["x", "y", None])),
    st.booleans(),
    st.sampled_from([True, False, None]),
)


@given(st.lists(exploration_rounds, max_size=8), st.lists(exploration_rounds, max_size=8))
def test_exploration_rounds_taken_back_leave_no_trace(remaining, withdrawn):
    sums, expected = ExplorationSums(), ExplorationSums()
    for round_ in [*remaining, *withdrawn]:
        sums.add(round_, +1)
    for round_ in withdrawn:
        sums.add(round_, -1)
    for round_ in remaining:
        expected.add(round_, +1)
    assert sums == expected


def test_the_state_counts_exploration_rounds_and_a_snapshot_keeps_them():
    state = State(2)
    for right in (True, False, None):
        state.add(contribution(explored(0, 0, 1, UNASKED, right=right)))
    restored = State.restore(state.snapshot())
    assert restored.exploration == state.exploration
    assert (restored.exploration.tried, restored.exploration.right) == (2, 1)
    assert restored.exploration.patterns == {VotePattern(ARMS, (0, 0, 1, UNASKED)): 3}


def test_a_human_label_changes_rewards_and_leaves_the_vote_pattern():
    state = State(2)
    voted = contribution(explored(0, 0, 0, 1))
    human = Contribution(voted.context, (Change("a", 0.5, None, 0.0),), 1, voted.exploration)
    state.add(voted)
    state.add(revision(voted, human))
    assert state["a"].reward_sum == 0.0
    assert state.exploration.patterns == {VotePattern(ARMS, (0, 0, 0, 1)): 1}


def test_withdrawing_a_round_withdraws_its_vote_pattern():
    state = State(2)
    state.add(contribution(explored(0, 1, 0, 1, right=True)))
    undone = Contribution(
        np.array([1.0, 0.0]), (Change("a", 0.5, 1.0, None),), -1, explored(0, 1, 0, 1, right=True)
    )
    state.add(undone)
    assert state.exploration == ExplorationSums()


def test_the_evidence_lags_at_most_a_fifth_of_the_rounds_behind():
    sums, versions = ExplorationSums(), set()
    for number in range(1000):
        sums.add(explored(0, 0, 0, number % 2), 1)
        assert number + 1 >= sums.evidence.rounds >= (number + 1) / 1.2 - 1
        versions.add(id(sums.evidence))
    assert len(versions) < 50


def test_a_withdrawn_round_is_not_in_the_evidence():
    sums = ExplorationSums()
    for sign in (1, 1, -1):
        sums.add(explored(0, 0, 1, 0), sign)
    assert sums.evidence.patterns == {VotePattern(ARMS, (0, 0, 1, 0)): 1}


def test_a_forgotten_round_is_not_taken_out_of_the_places_of_a_later_one_with_its_pattern():
    one, other = (VotePattern.of(("a", "b"), marks, everyone=True) for marks in ({"a": "x"}, {"b": "x"}))
    sums = ExplorationSums()
    early, late = (ExplorationRound(one, None, places=(place,)) for place in (one, other))
    sums.add(early, +1)
    sums.forget_stops()
    sums.add(late, +1)
    sums.add(early, -1)
    assert min(sums.places.values(), default=0) >= 0
