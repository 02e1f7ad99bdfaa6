from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from camvo.policies.background_fits import StackedMaterial
from camvo.policies.estimates import Observation
from camvo.policies.stacked import Stacked
from camvo.state.kept_rounds import CastVote, Head, Row
from camvo.state.state import State
from camvo.weights.stacking_fit import fit_stacked_vote

LABELS = ("w", "x", "y", "z")
ARMS = ("a", "b", "copy", "c")


def rows(n, everyone=True, seed=0):
    """``copy`` says what b says, but for one time in a thousand."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        truth = rng.integers(4)
        a, b, c = np.where(rng.random(3) < 0.7, truth, rng.integers(4, size=3))
        copy = rng.integers(4) if rng.random() < 0.001 else b
        said = zip(ARMS, (a, b, copy, c), strict=True)
        yield Row(tuple(CastVote(arm, LABELS[vote], 0.7) for arm, vote in said), LABELS[truth], everyone)


def material(seen):
    return StackedMaterial(Head(tuple(seen)), LABELS, ARMS, (0.25,) * 4, 1 / 75, 3)


@pytest.fixture(scope="module")
def studied():
    return material(rows(800))


def test_near_copies_share_the_weight_of_one(studied):
    assert studied.study().shares == {"a": 1.0, "b": 0.5, "copy": 0.5, "c": 1.0}


def test_models_that_were_asked_because_of_votes_may_agree_without_being_copies():
    assert set(material(rows(800, everyone=False)).study().shares.values()) == {1.0}


def test_a_study_is_made_once(studied):
    assert replace(studied).study() is studied.study()


def test_its_stack_is_that_of_the_rounds(studied):
    assert studied.study().stack == fit_stacked_vote(studied.head.rows, LABELS)


def test_a_plan_goes_by_the_study_that_it_is_given(studied):
    """The state has seen nothing, so all that is known is in the study."""
    policy, costs = Stacked(first=0), dict.fromkeys(ARMS, 1.0)
    seen = Observation(State(2), np.array([1.0, 0.5]), LABELS)
    given, fresh = (policy.plan({"q": one}, costs) for one in (replace(seen, study=studied.study()), seen))
    assert given.weights["q"].tolist() == [1.0, 0.5, 1.0, 0.5]
    assert given.stages.of["q"].stack == studied.study().stack
    assert fresh.stages.of["q"].stack == fit_stacked_vote((), LABELS)


def test_without_one_a_plan_studies_what_the_state_has_kept():
    policy, costs = Stacked(), dict.fromkeys(ARMS, 1.0)
    state = State(2)
    for row in rows(20):
        state.rows.add(row)
    seen = Observation(state, np.array([1.0, 0.5]), LABELS)
    at_once = policy.plan({"q": seen}, costs)
    study = policy.material(seen, costs).study()
    before = policy.plan({"q": replace(seen, study=study)}, costs)
    assert at_once.stages == before.stages
