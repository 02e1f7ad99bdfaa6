"""The tests of one question: alarms where something has changed, and what begins anew."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from camvo.state.contribution import Change, Contribution, Restart
from camvo.state.exploration import SILENT, ExplorationRound, VotePattern
from camvo.state.state import DriftTests, State, findings, findings_with
from camvo.student import STUDENT

ARMS = tuple("abcde")
CONTEXT = np.array([1.0])


def rounds(rng, n, accuracy=0.9, promised=0.01, wrong=0.0, **own):
    """Exploration rounds that asked everyone: four labels, accuracies by arm in ``own``."""
    made = []
    for _ in range(n):
        votes = {
            arm: "right" if rng.random() < own.get(arm, accuracy) else str(rng.integers(3)) for arm in ARMS
        }
        right = bool(rng.random() >= wrong)
        made.append(ExplorationRound(VotePattern.of(ARMS, votes, everyone=True), right, promised))
    return made


def due_after(made, tests=None):
    """The first restart that is due, and the number of rounds until then."""
    tests = DriftTests() if tests is None else tests
    for number, round_ in enumerate(made, 1):
        tests.add(round_)
        if (due := tests.due()) is not None:
            return due, number
    return None, len(made)


def taught(exploration):
    rewards = tuple(Change(arm, 0.5, None, 1.0) for arm in ARMS)
    return Contribution(CONTEXT, rewards, exploration=exploration)


def test_nothing_is_due_while_nothing_changes():
    assert due_after(rounds(np.random.default_rng(1), 400))[0] is None


def test_harder_tasks_are_noticed_and_no_arm_is_blamed():
    rng = np.random.default_rng(2)
    due, number = due_after([*rounds(rng, 200), *rounds(rng, 200, accuracy=0.7)])
    assert (due.kind, due.arm) == ("tasks", None)
    assert 200 < number < 300


def test_harder_tasks_that_were_chosen_show_no_change():
    rng = np.random.default_rng(2)
    harder = [replace(round_, chosen=True) for round_ in rounds(rng, 200, accuracy=0.7, wrong=0.5)]
    tests = DriftTests()
    assert due_after([*rounds(rng, 200), *harder], tests)[0] is None
    assert tests.seen == 400


@pytest.mark.parametrize("promised", [None, 0.01])
def test_a_chosen_round_is_stored_as_one(promised):
    [round_] = rounds(np.random.default_rng(2), 1, promised=promised)
    chosen = replace(round_, chosen=True)
    assert ExplorationRound.from_list(chosen.to_list()) == chosen
    assert ExplorationRound.from_list(round_.to_list()) == round_


@pytest.mark.parametrize("arm", ["a", "e"])
def test_an_arm_that_breaks_is_noticed_and_blamed(arm):
    rng = np.random.default_rng(3)
    due, number = due_after([*rounds(rng, 200), *rounds(rng, 100, **{arm: 0.3})])
    assert (due.kind, due.arm) == ("arm", arm)
    assert 200 < number < 250


def beside_student(rng, made, share):
    """The same rounds with the student: it votes at random in this share, and is silent in the others."""
    found = []
    for round_ in made:
        votes = dict(zip(round_.pattern.arms, map(str, round_.pattern.groups), strict=True))
        votes[STUDENT] = str(rng.integers(4)) if rng.random() < share else None
        pattern = VotePattern.of((*ARMS, STUDENT), votes, everyone=True)
        found.append(replace(round_, pattern=pattern))
    return found


def test_a_student_that_begins_to_vote_is_no_change():
    rng = np.random.default_rng(7)
    silent, voting = (beside_student(rng, rounds(rng, 400), share) for share in (0.0, 1.0))
    assert due_after([*silent, *voting])[0] is None


def test_a_weak_model_that_was_down_for_a_while_is_no_change():
    rng = np.random.default_rng(8)
    up, back = (rounds(rng, n, e=0.4) for n in (200, 600))
    down = [
        replace(
            round_,
            pattern=replace(round_.pattern, groups=(*round_.pattern.groups[:-1], SILENT)),
        )
        for round_ in rounds(rng, 400, e=0.4)
    ]
    assert due_after([*up, *down, *back])[0] is None


def test_an_arm_that_gets_better_is_noticed():
    rng = np.random.default_rng(4)
    due, _ = due_after([*rounds(rng, 300, c=0.4), *rounds(rng, 200, c=0.95)])
    assert (due.kind, due.arm) == ("arm", "c")


def test_stops_that_break_their_promise_are_noticed_where_votes_look_the_same():
    due, number = due_after(rounds(np.random.default_rng(5), 400, wrong=0.05))
    assert (due.kind, due.promised) == ("stops", pytest.approx(0.01 * number))
    assert due.wrong > 3 * due.promised


def test_rounds_without_a_promise_test_no_stop():
    tests = DriftTests()
    for round_ in rounds(np.random.default_rng(6), 50, promised=None, wrong=1.0):
        tests.add(round_)
    assert tests.stops.tried == 0


def test_only_votes_that_were_asked_for_independently_of_others_are_compared():
    tests = DriftTests()
    pattern = VotePattern.of(ARMS, {"a": "x", "b": "x", "c": "y", "d": "y"})
    for _ in range(30):
        tests.add(ExplorationRound(pattern, None))
    assert tests.arms == {}


def test_rounds_without_a_promise_count_only_if_they_asked_everyone():
    tests = DriftTests()
    votes = dict.fromkeys(ARMS, "x")
    for everyone in (True, False):
        pattern = VotePattern.of(ARMS, votes, everyone=everyone)
        stored = ExplorationRound(pattern, right=True).to_list()
        assert len(stored) == 4
        tests.add(ExplorationRound.from_list(stored))
    assert [test.tried for test in tests.arms.values()] == [0] * len(ARMS)
    assert (tests.seen, tests.stops.tried) == (2, 0)


def test_an_arm_that_gives_no_vote_has_not_changed():
    rng = np.random.default_rng(7)
    silent = []
    for round_ in rounds(rng, 200):
        votes = dict(zip(ARMS, map(str, round_.pattern.groups), strict=True)) | {"a": None}
        silent.append(ExplorationRound(VotePattern.of(ARMS, votes, everyone=True), None))
    assert due_after([*rounds(rng, 200), *silent])[0] is None


def test_after_a_restart_of_the_tasks_the_harder_ones_are_normal():
    rng = np.random.default_rng(8)
    tests = DriftTests()
    due, _ = due_after([*rounds(rng, 200), *rounds(rng, 100, accuracy=0.7)], tests)
    tests.restart(due)
    assert due_after(rounds(rng, 300, accuracy=0.7), tests)[0] is None


def test_a_broken_promise_forgets_the_patterns_before_it():
    rng, state = np.random.default_rng(9), State(1)
    made = rounds(rng, 400, wrong=0.05)
    before = 0
    for round_ in made:
        state.add(replace(taught(round_), restarts=state.drift.restarts))
        state.restart_if_due()
        if state.restarts:
            break
        before += 1
    assert state.restarts[0].kind == "stops"
    assert state.restarted_at == state.rounds == before + 1
    assert (state.exploration.evidence.rounds, state.exploration.patterns.total()) == (0, 0)
    state.add(taught(made[0]))
    assert state.exploration.evidence.rounds == 1


def test_withdrawing_a_round_from_before_a_restart_leaves_later_patterns_alone():
    rng, state = np.random.default_rng(10), State(1)
    first, *later = rounds(rng, 3)
    state.add(taught(first))
    state.exploration.forget_stops()
    state.add(*map(taught, later))
    evidence = dict(state.exploration.evidence.patterns)
    state.add(Contribution(CONTEXT, (), rounds=-1, exploration=rounds(rng, 1, a=0.0)[0]))
    assert state.exploration.evidence.patterns == evidence


def test_tests_of_a_restored_state_go_on_bit_by_bit():
    rng, state = np.random.default_rng(11), State(1)
    made = [taught(round_) for round_ in rounds(rng, 120)]
    state.add(*made[:60])
    again = State.restore(state.snapshot())
    for each in (state, again):
        each.add(*made[60:])
    assert again.drift == state.drift
    assert again.snapshot() == state.snapshot()


def test_what_was_promised_before_a_restart_is_not_held_against_later_stops():
    state = State(1)
    state.add(Contribution.of_restart(Restart("stops", 0), 1))
    [late] = rounds(np.random.default_rng(12), 1)
    state.add(taught(late))
    assert (state.drift.stops.tried, state.drift.seen, state.exploration.tried) == (0, 1, 1)
    state.add(replace(taught(late), restarts=1))
    assert state.drift.stops.tried == 1


@pytest.mark.parametrize("known", [0, 1, 60, 61, 119, 200])
def test_findings_with_later_contributions_are_those_of_the_whole_state(known):
    made = [taught(each) for each in rounds(np.random.default_rng(8), 120, wrong=0.1)]
    restarted = Restart("arm", 0, arm="b", history=1, version="b-2", before="b-1")
    chosen = replace(made[7], exploration=replace(made[7].exploration, chosen=True), restarts=1)
    versions = replace(taught(None), versions={"b": "b-1"})
    events = [
        versions,
        *made[:60],
        Contribution.of_restart(restarted, 1),
        Contribution.of_restart(restarted, 1),
        *[replace(each, histories={"b": 1}, restarts=1) for each in made[60:]],
        chosen,
        made[3].withdrawal(),
    ]
    before, whole = State(1), State(1)
    before.add(*events[: known + 1])
    whole.add(*events)
    assert findings_with(findings(before), events[known + 1 :]) == findings(whole)
