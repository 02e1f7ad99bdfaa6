"""Rounds of policies that are gone stay in a ledger: they still count, and people can still correct them."""

from __future__ import annotations

import numpy as np
import pytest

from camvo.policies.joint import Joint
from camvo.policies.policy import Observation
from camvo.policies.teaching import TaughtRound
from camvo.state.contribution import Contribution, revision
from camvo.state.exploration import UNASKED
from camvo.state.state import State

ARMS = ("large", "medium", "small")
CONTEXT = np.array([1.0, 0.5])
VOTES = {"small": "yes", "medium": "yes"}
PLAN = {
    "labels": ["no", "yes", "maybe"],
    "subset": ["small"],
    "arms": {
        arm: {"propensity": 0.06, "rewards": 61.0, "agreement": 0.9, "q": 0.5, "weight": 1.9} for arm in ARMS
    },
    "stages": {
        "order": ["small", "medium", "large"],
        "coin": "certificate",
        "propensity": [0.059, 0.567],
        "first": 1,
        "kept": "labelled",
        "weights": [1.9, 2.5, 1.6],
        "rule": {"first": 1, "moves": [{"0": 2}, {"0, 1": 3}], "certain": True, "error": 0.0, "price": 0.0},
    },
}
"""What a round of sequential voting stored, which went on to a certain label by a draw."""

PACKED = bytes.fromhex(
    "7b226474797065223a223c6634222c22726f756e6473223a312c226368616e676573223a5b5d2c2270726f6265223a5b5b226c61"
    "726765222c226d656469756d222c22736d616c6c225d2c5b2d322c302c305d2c66616c73652c747275652c302e30393939393939"
    "393939393939393939382c5b22736d616c6c225d5d7d0a0000803f0000003f"
)
"""The contribution of that round, as earlier versions packed it."""


def test_its_contribution_still_counts_in_the_state():
    state = State(2)
    state.add(Contribution.unpack(PACKED))
    ((pattern, count),) = state.exploration.patterns.items()
    assert (pattern.arms, pattern.groups, pattern.everyone, count) == (ARMS, (UNASKED, 0, 0), False, 1)
    assert (state.exploration.tried, state.exploration.right, state.drift.stops.tried) == (1, 1, 1)


def test_a_human_label_rewards_the_arms_that_were_asked_first_and_keeps_the_round():
    taught = TaughtRound.stored(PLAN, CONTEXT, VOTES).contribution("no", human=True)
    assert [(change.arm, change.added) for change in taught.changes] == [("small", 0.0)]
    assert {vote.arm for vote in taught.kept.votes} == {"small", "medium"}
    assert taught.kept.label == "no"


def test_a_human_label_is_added_and_withdrawn():
    state, stored = State(2), TaughtRound.stored(PLAN, CONTEXT, VOTES)
    state.add(Contribution.unpack(PACKED))
    before = state.snapshot()
    voted, human = stored.contribution("yes"), stored.contribution("no", human=True)
    state.add(revision(voted, human))
    assert len(state.kept_rounds.rounds) == 1
    state.add(revision(human, voted))
    assert (state.kept_rounds.rounds, state.exploration) == ([], State.restore(before).exploration)


@pytest.mark.parametrize("policy", [Joint(), Joint(agreement=0.9)], ids=["worth", "agreement"])
def test_the_joint_policy_goes_on_with_such_a_state(policy):
    state = State(2)
    state.add(*[Contribution.unpack(PACKED)] * 50)
    plan = policy.plan({"q": Observation(state, CONTEXT, ("no", "yes", "maybe"))}, dict.fromkeys(ARMS, 1.0))
    assert set(plan.subset) == set(ARMS), "no such round asked every model, so the first ones do"
