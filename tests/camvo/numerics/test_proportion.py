from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from camvo.errors import InvalidParameterError
from camvo.numerics.small import clopper_pearson


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.5, 0.999))
def test_the_interval_is_scipys_exact_one(counts, level):
    expected = binomtest(*counts).proportion_ci(confidence_level=level, method="exact")
    assert clopper_pearson(*counts, level) == pytest.approx(tuple(expected), abs=1e-9)


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, 100 * n), st.just(n))))
def test_the_interval_holds_the_share_also_of_fractional_successes(hundredths):
    successes, trials = hundredths[0] / 100, hundredths[1]
    low, high = clopper_pearson(successes, trials)
    assert 0.0 <= low <= successes / trials <= high <= 1.0


def test_without_trials_the_interval_is_0_to_1():
    assert clopper_pearson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize("bad", [(2, 1, 0.95), (-1, 1, 0.95), (0, 1, 1.0), (float("nan"), 1, 0.95)])
def test_invalid_counts_and_levels_are_refused(bad):
    with pytest.raises(InvalidParameterError):
        clopper_pearson(*bad)
