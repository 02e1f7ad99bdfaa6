from __future__ import annotations

import numpy as np
import pytest

from camvo.stages.exploration import explore, propensities, uniform_draw


def test_draws_are_uniform_and_the_same_each_time():
    context = np.random.default_rng(0).normal(size=3)
    draws = [uniform_draw([context], rounds) for rounds in range(2000)]
    assert draws == [uniform_draw([context], rounds) for rounds in range(2000)]
    assert np.histogram(draws, bins=4, range=(0.0, 1.0))[0] == pytest.approx([500] * 4, abs=80)


def test_exploration_fades_but_never_ends():
    everyone, certificate = np.array([propensities(rounds) for rounds in range(20_000)]).T
    assert everyone[0] == certificate[0] == 1.0
    assert np.all(np.diff(everyone) <= 0.0)
    assert np.all(everyone <= certificate)
    assert everyone[14_000 - 1] > 0.0
    assert everyone[:14_000].sum() == pytest.approx(6 * 14_000 ** (1 / 3), rel=0.1)
    assert certificate[:14_000].sum() == pytest.approx(16 * 14_000**0.5, rel=0.1)


@pytest.mark.parametrize(
    ("draw", "outcome"), [(0.05, "everyone"), (0.1, "certificate"), (0.49, "certificate"), (0.5, "nobody")]
)
def test_a_draw_below_a_probability_has_its_outcome(draw, outcome):
    assert explore(draw, everyone=0.1, certificate=0.5) == outcome
