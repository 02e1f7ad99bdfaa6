"""What sequential voting does after a restart, with evidence from 500 rounds."""

from __future__ import annotations

import numpy as np
import pytest

from camvo.policies.estimates import Observation
from camvo.policies.sequential import Sequential
from camvo.state.contribution import Contribution
from camvo.state.restart import Restart
from camvo.state.state import State
from camvo.state.vote_patterns import ExplorationRound, VotePattern

COSTS = {"large": 9.0, "medium": 3.0, "small": 1.0, "tiny": 0.5}
ACCURACIES = {"large": 0.97, "medium": 0.95, "small": 0.9, "tiny": 0.8}
LABELS = ("no", "yes", "maybe")
CONTEXT = np.array([1.0])
POLICY = Sequential(agreement=0.9)


@pytest.fixture(scope="module")
def snapshot():
    rng, state = np.random.default_rng(1), State(1)
    for _ in range(500):
        votes = {
            arm: "yes" if rng.random() < right else LABELS[rng.integers(3)]
            for arm, right in ACCURACIES.items()
        }
        pattern = VotePattern.of(sorted(COSTS), votes, everyone=True)
        state.add(Contribution(CONTEXT, (), exploration=ExplorationRound(pattern, None)))
    return state.snapshot()


def plan_of(snapshot, *restarts):
    state = State.restore(snapshot)
    state.add(*(Contribution.of_restart(restart, 1) for restart in restarts))
    return POLICY.plan({"q": Observation(state, CONTEXT, LABELS)}, COSTS), state


def weights(plan):
    return dict(zip(plan.arms, plan.weights["q"].tolist(), strict=True))


def test_without_a_restart_a_learned_stop_is_used_or_tested(snapshot):
    plan, _ = plan_of(snapshot)
    stages = plan.stages.questions["q"]
    assert stages.trial is not None or not stages.rule.certain


@pytest.mark.parametrize(
    "restart", [Restart("stops", 0), Restart("tasks", 0), Restart("arm", 0, arm="small", history=1)]
)
def test_after_a_restart_asking_stops_only_at_certain_labels(snapshot, restart):
    plan, _ = plan_of(snapshot, restart)
    assert plan.stages.questions["q"].rule.certain
    assert plan.stages.questions["q"].trial is None
    assert plan.stages.propensity == (1.0, 1.0)


def test_forgetting_stops_keeps_all_weights(snapshot):
    assert weights(plan_of(snapshot)[0]) == weights(plan_of(snapshot, Restart("stops", 0))[0])


def test_a_changed_arm_has_the_weight_of_a_newcomer_and_the_others_keep_about_theirs(snapshot):
    before = weights(plan_of(snapshot)[0])
    after = weights(plan_of(snapshot, Restart("arm", 0, arm="tiny", history=1))[0])
    assert after["tiny"] > before["tiny"] + 0.5
    for arm in ("large", "medium", "small"):
        assert after[arm] == pytest.approx(before[arm], abs=0.6)


def test_the_plan_says_which_histories_it_was_made_with(snapshot):
    plan, _ = plan_of(snapshot, Restart("version", 0, arm="tiny", history=1, version="2"))
    assert plan.describe("q")["histories"] == {"tiny": 1}
    assert "histories" not in plan_of(snapshot)[0].describe("q")


def test_the_lesson_of_a_round_names_the_histories_of_its_plan(snapshot):
    plan, _ = plan_of(snapshot, Restart("arm", 0, arm="tiny", history=1))
    votes = {arm: {"q": "yes"} for arm in COSTS}
    taught = POLICY.contribution(plan, "q", votes, "yes")
    assert taught.histories == {"tiny": 1}


def test_an_exploration_round_says_what_was_promised_and_who_was_asked_first(snapshot):
    state = State.restore(snapshot)
    for rounds in range(500, 600):
        state.rounds = rounds
        plan = POLICY.plan({"q": Observation(state, CONTEXT, LABELS)}, COSTS)
        if plan.stages.exploration == "certificate":
            break
    votes = {}
    while asked := POLICY.ask(plan, votes):
        votes |= {arm: {"q": "yes"} for arm in asked}
    explored = POLICY.contribution(plan, "q", votes, "yes").exploration
    assert explored.promised == pytest.approx(0.1)
    assert explored.first == plan.stages.first
    assert explored.right is True
