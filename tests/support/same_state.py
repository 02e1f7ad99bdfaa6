"""Compare two states: counts exactly, sums to 1e-9, kept rounds in any order."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from camvo.state.state import State


def assert_same_state(state: State, other: State) -> None:
    assert (state.rounds, state.exploration) == (other.rounds, other.exploration)
    assert Counter(state.kept_rounds.rounds) == Counter(other.kept_rounds.rounds)
    assert state.kept_rounds.owed == other.kept_rounds.owed
    assert set(state) == set(other)
    assert state.linear == other.linear
    for arm in state:
        assert state[arm].rewards == other[arm].rewards
        assert state[arm].reward_sum == pytest.approx(other[arm].reward_sum, abs=1e-9)
        if state.linear:
            assert np.allclose(state[arm].inverse.full(), other[arm].inverse.full(), rtol=0, atol=1e-9)
            assert np.allclose(state[arm].b, other[arm].b, rtol=0, atol=1e-9)
        sums = [np.ravel(each[arm].mixture.to_list()) for each in (state, other)]
        assert np.allclose(*sums, rtol=0, atol=1e-9)
