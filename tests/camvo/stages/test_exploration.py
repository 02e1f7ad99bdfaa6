from __future__ import annotations

import numpy as np
import pytest

from camvo.stages.stages import uniform_draw


def test_draws_are_uniform_and_the_same_each_time():
    context = np.random.default_rng(0).normal(size=3)
    draws = [uniform_draw([context], rounds) for rounds in range(2000)]
    assert draws == [uniform_draw([context], rounds) for rounds in range(2000)]
    assert np.histogram(draws, bins=4, range=(0.0, 1.0))[0] == pytest.approx([500] * 4, abs=80)
