from __future__ import annotations

import numpy as np

from backend.upkeep import _differences
from camvo.state.contribution import Change, Contribution
from camvo.state.state import State


def taught(*rewards: float) -> State:
    state = State(2)
    for reward in rewards:
        state.add(Contribution(np.array([1.0, 0.0]), (Change("small", 0.5, None, reward),)))
    return state


def test_equal_sums_do_not_differ() -> None:
    assert _differences(taught(1.0, 0.0), taught(0.0, 1.0)) == []


def test_another_number_of_rounds_is_named() -> None:
    assert _differences(taught(1.0), taught(1.0, 1.0)) == ["rounds", "arms"]


def test_another_reward_is_named() -> None:
    assert _differences(taught(1.0), taught(0.0)) == ["arms"]


def test_another_context_is_seen_by_the_linear_models_only() -> None:
    other = State(2)
    other.add(Contribution(np.array([0.0, 1.0]), (Change("small", 0.5, None, 1.0),)))
    assert _differences(taught(1.0), other) == ["linear model of small"]
    assert _differences(taught(1.0), State.restore(other.snapshot(), linear=False)) == []


def test_another_ridge_of_the_same_rounds_is_reached_by_conversion() -> None:
    strong = State(2, 4.0)
    for reward in (1.0, 0.0):
        strong.add(Contribution(np.array([1.0, 0.0]), (Change("small", 0.5, None, reward),)))
    assert _differences(taught(1.0, 0.0).with_ridge(4.0), strong) == []
