from __future__ import annotations

import numpy as np
import pytest

from camvo.errors import InvalidParameterError
from camvo.policies.camvo import CaMVo
from camvo.policies.policy import Observation
from camvo.replays.lookahead import LookaheadState, plan_window
from camvo.state.contribution import Change, Contribution
from camvo.state.state import State


@pytest.mark.parametrize("policy", [CaMVo(delta=0.9, n0=1), CaMVo(delta=0.9, confidence="copula")])
def test_tasks_planned_together_are_planned_as_each_by_itself(policy):
    rng = np.random.default_rng(8)
    state, prices = LookaheadState(3), {"a": 1.0, "b": 2.0, "c": 3.5}
    for _ in range(60):
        context = rng.normal(size=3)
        state.add(
            Contribution(context, tuple(Change(arm, 0.6, None, float(rng.random() < 0.9)) for arm in prices))
        )
    tasks = [{"q": Observation(state, rng.normal(size=3), ("no", "yes"))} for _ in range(12)]
    for together, task in zip(plan_window(policy, tasks, prices), tasks, strict=True):
        alone = policy.plan(task, prices)
        assert together.subset == alone.subset
        assert together.confidence == pytest.approx(alone.confidence, abs=1e-12)
        np.testing.assert_allclose(together.weights["q"], alone.weights["q"], atol=1e-12)


def test_tasks_planned_together_share_their_state():
    tasks = [{"q": Observation(State(1), np.ones(1), ("no", "yes"))} for _ in range(2)]
    with pytest.raises(InvalidParameterError, match="share one state"):
        plan_window(CaMVo(), tasks, {"a": 1.0})


def test_tasks_planned_together_have_the_same_questions():
    observation = Observation(State(1), np.ones(1), ("no", "yes"))
    with pytest.raises(InvalidParameterError, match="same questions"):
        plan_window(CaMVo(), [{"p": observation}, {"q": observation}], {"a": 1.0})


@pytest.mark.parametrize(
    ("tasks", "prices"), [(0, {"a": 1.0}), (2, {})], ids=["without a task", "without a model"]
)
def test_an_empty_window_is_refused(tasks, prices):
    observation = Observation(State(1), np.ones(1), ("no", "yes"))
    with pytest.raises(InvalidParameterError, match="at least one"):
        plan_window(CaMVo(), [{"q": observation}] * tasks, prices)
