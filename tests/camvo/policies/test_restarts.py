"""What the joint policy does after a restart, with evidence from 500 rounds."""

from __future__ import annotations

import numpy as np
import pytest

from camvo.policies.joint import Joint
from camvo.policies.policy import Conditions, Observation
from camvo.state.contribution import Contribution, Restart
from camvo.state.exploration import ExplorationRound, VotePattern
from camvo.state.state import State

COSTS = {"large": 9.0, "medium": 3.0, "small": 1.0, "tiny": 0.5}
ACCURACIES = {"large": 0.97, "medium": 0.95, "small": 0.9, "tiny": 0.8}
LABELS = ("no", "yes", "maybe")
CONTEXT = np.array([1.0])
POLICY = Joint(agreement=0.9)
VOTES = {arm: {"q": "yes"} for arm in COSTS}


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


def plan_of(snapshot, *restarts, policy=POLICY, everyone=False):
    state = State.restore(snapshot)
    state.add(*(Contribution.of_restart(restart, 1) for restart in restarts))
    return policy.plan({"q": Observation(state, CONTEXT, LABELS)}, COSTS, Conditions(everyone=everyone))


def test_without_a_restart_a_learned_stop_is_used(snapshot):
    plan = plan_of(snapshot)
    assert plan.stages.questions["q"].stops.error_price is not None
    assert plan.stages.propensity < 0.1


@pytest.mark.parametrize("policy", [POLICY, Joint()], ids=["agreement", "worth"])
@pytest.mark.parametrize(
    "restart", [Restart("stops", 0), Restart("tasks", 0), Restart("arm", 0, arm="small", history=1)]
)
def test_after_a_restart_all_models_are_asked_again(snapshot, restart, policy):
    plan = plan_of(snapshot, restart, policy=policy)
    assert plan.stages.propensity == 1.0
    assert set(plan.subset) == set(COSTS)


def test_after_a_restart_a_plan_stops_only_where_the_label_is_certain(snapshot):
    assert plan_of(snapshot, Restart("stops", 0)).stages.questions["q"].stops.error_price is None


def test_the_plan_says_which_histories_it_was_made_with(snapshot):
    plan = plan_of(snapshot, Restart("version", 0, arm="tiny", history=1, version="2"))
    assert plan.describe("q")["histories"] == {"tiny": 1}
    assert "histories" not in plan_of(snapshot).describe("q")


def test_the_lesson_of_a_round_names_the_histories_of_its_plan(snapshot):
    plan = plan_of(snapshot, Restart("arm", 0, arm="tiny", history=1))
    assert POLICY.contribution(plan, "q", VOTES, "yes").histories == {"tiny": 1}


def test_a_round_that_asked_everyone_says_what_was_promised_and_whether_it_held(snapshot):
    explored = POLICY.contribution(plan_of(snapshot, everyone=True), "q", VOTES, "yes").exploration
    assert explored.promised == pytest.approx(0.1)
    assert explored.right is True


def test_a_plan_that_stops_only_where_labels_are_certain_promises_nothing(snapshot):
    explored = POLICY.contribution(plan_of(snapshot, Restart("stops", 0)), "q", VOTES, "yes").exploration
    assert explored.promised is None
