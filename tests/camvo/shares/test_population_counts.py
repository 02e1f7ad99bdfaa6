"""The exact bounds of a finite population's count, against SciPy's hypergeometric distribution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaincinv
from scipy.stats import hypergeom

from camvo.errors import InvalidParameterError
from camvo.shares import _count_bounds

TAIL = 0.025


@st.composite
def samples(draw, most=80):
    size = draw(st.integers(1, most))
    drawn = draw(st.integers(0, size))
    return draw(st.integers(0, drawn)), drawn, size


@given(samples(), st.sampled_from([TAIL, 0.3, 0.8]))
@settings(max_examples=100, deadline=None)
def test_the_bounds_hold_the_counts_that_neither_test_rejects(sample, tail):
    marked, drawn, size = sample
    low, high = _count_bounds(marked, drawn, size, tail)
    possible = np.arange(marked, size - (drawn - marked) + 1)
    at_least = hypergeom.sf(marked - 1, size, possible, drawn)
    at_most = hypergeom.cdf(marked, size, possible, drawn)
    assert low == possible[at_least > tail - 1e-9].min()
    assert high == possible[at_most > tail - 1e-9].max()


@given(samples())
@settings(max_examples=100, deadline=None)
def test_what_is_not_marked_has_the_mirrored_bounds(sample):
    marked, drawn, size = sample
    low, high = _count_bounds(marked, drawn, size)
    assert _count_bounds(drawn - marked, drawn, size) == (size - high, size - low)


@pytest.mark.parametrize(("size", "drawn"), [(40, 15), (300, 100), (2000, 100)])
def test_they_miss_no_count_more_often_than_five_times_in_a_hundred(size, drawn):
    seen = np.arange(drawn + 1)
    low, high = _count_bounds(seen, drawn, size)
    for true in range(0, size + 1, max(size // 40, 1)):
        held = (low <= true) & (true <= high)
        assert hypergeom.pmf(seen[held], size, true, drawn).sum() >= 0.95 - 1e-9


def test_in_a_huge_population_they_are_clopper_and_pearsons():
    low, high = _count_bounds(7, 1000, 10**8)
    assert low / 10**8 == pytest.approx(betaincinv(7, 994, TAIL), rel=1e-4)
    assert high / 10**8 == pytest.approx(betaincinv(8, 993, 1 - TAIL), rel=1e-4)


def test_a_sample_of_everything_leaves_no_doubt():
    assert [int(bound) for bound in _count_bounds(31, 100, 100)] == [31, 31]


def test_without_a_sample_nothing_is_known():
    assert [int(bound) for bound in _count_bounds(0, 0, 50)] == [0, 50]


@pytest.mark.parametrize("sample", [(-1, 5, 10), (6, 5, 10), (3, 11, 10)])
def test_impossible_samples_are_refused(sample):
    with pytest.raises(InvalidParameterError):
        _count_bounds(*sample)


def test_a_tail_outside_0_and_1_is_refused():
    with pytest.raises(InvalidParameterError):
        _count_bounds(1, 2, 3, tail=0.0)


def test_bounds_do_not_depend_on_the_counts_beside_them():
    """Those of a label that nobody gave are found at once, while others are still sought."""
    cases = [(0, 100, 499), (50, 100, 499), (0, 10, 499), (100, 100, 499), (3, 80, 100_000)]
    together = np.transpose(_count_bounds(*np.transpose(cases)))
    assert together.tolist() == [[int(bound) for bound in _count_bounds(*case)] for case in cases]
