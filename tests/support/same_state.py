"""Two states that know the same: counts exactly, sums to 1e-9, kept rounds in any order."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from camvo.state.state import State


def assert_same_state(one: State, other: State) -> None:
    assert (one.rounds, one.exploration) == (other.rounds, other.exploration)
    assert Counter(one.kept_rounds.rounds) == Counter(other.kept_rounds.rounds)
    assert one.kept_rounds.owed == other.kept_rounds.owed
    assert set(one) == set(other)
    for arm in one:
        assert one[arm].rewards == other[arm].rewards
        assert one[arm].reward_sum == pytest.approx(other[arm].reward_sum, abs=1e-9)
        assert np.allclose(one[arm].inverse.full(), other[arm].inverse.full(), rtol=0, atol=1e-9)
        assert np.allclose(one[arm].b, other[arm].b, rtol=0, atol=1e-9)
        sums = [np.ravel(state[arm].mixture.to_list()) for state in (one, other)]
        assert np.allclose(*sums, rtol=0, atol=1e-9)
