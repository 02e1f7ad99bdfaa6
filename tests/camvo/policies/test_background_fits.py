from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from camvo.policies.background_fits import StackedFitData, fitted
from camvo.policies.estimates import Observation
from camvo.policies.stacked import Stacked
from camvo.state.kept_rounds import CastVote, KeptRound, LatestRounds
from camvo.state.state import State
from camvo.weights.stacking_fit import fit_stacked_vote

LABELS = ("w", "x", "y", "z")
ARMS = ("a", "b", "copy", "c")


def rounds(n, everyone=True, seed=0):
    """Rounds of four arms; ``copy`` votes like b except in about one round in a thousand."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        truth = rng.integers(4)
        a, b, c = np.where(rng.random(3) < 0.7, truth, rng.integers(4, size=3))
        copy = rng.integers(4) if rng.random() < 0.001 else b
        votes = zip(ARMS, (a, b, copy, c), strict=True)
        yield KeptRound(
            tuple(CastVote(arm, LABELS[vote], 0.7) for arm, vote in votes), LABELS[truth], everyone
        )


def data(kept_rounds):
    return StackedFitData(LatestRounds(tuple(kept_rounds)), LABELS, ARMS, (0.25,) * 4, 1 / 75, 3)


@pytest.fixture(scope="module")
def experience():
    return data(rounds(800))


def test_near_copies_share_the_weight_of_one(experience):
    assert fitted(experience).shares == {"a": 1.0, "b": 0.5, "copy": 0.5, "c": 1.0}


def test_models_that_were_asked_because_of_votes_may_agree_without_being_copies():
    assert set(fitted(data(rounds(800, everyone=False))).shares.values()) == {1.0}


def test_a_fit_is_computed_once(experience):
    assert fitted(replace(experience)) is fitted(experience)


def test_its_stack_is_that_of_the_rounds(experience):
    assert fitted(experience).stack == fit_stacked_vote(experience.latest.rounds, LABELS)


def test_a_plan_takes_the_fit_that_its_observation_brings(experience):
    """The state has seen nothing, so everything that is known is in the fit."""
    policy, costs = Stacked(first=0), dict.fromkeys(ARMS, 1.0)
    empty = Observation(State(2), np.array([1.0, 0.5]), LABELS)
    brought = policy.plan({"q": replace(empty, fit=fitted(experience))}, costs)
    fresh = policy.plan({"q": empty}, costs)
    assert brought.weights["q"].tolist() == [1.0, 0.5, 1.0, 0.5]
    assert brought.stages.questions["q"].stack == fitted(experience).stack
    assert fresh.stages.questions["q"].stack == fit_stacked_vote((), LABELS)


def test_without_one_a_plan_fits_the_rounds_that_the_state_has_kept():
    policy, costs = Stacked(), dict.fromkeys(ARMS, 1.0)
    state = State(2)
    for round_ in rounds(20):
        state.kept_rounds.add(round_)
    observation = Observation(state, np.array([1.0, 0.5]), LABELS)
    at_once = policy.plan({"q": observation}, costs)
    before = policy.plan({"q": replace(observation, fit=fitted(policy.fit_data(observation, costs)))}, costs)
    assert at_once.stages == before.stages
