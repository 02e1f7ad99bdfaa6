from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq

from camvo.votes.numbers import _expected_closeness, _moments

unit = st.floats(0.0, 1.0)
chances = st.floats(0.05, 0.98)


def by_quadrature(answer, votes, correctness, *, low, high, scale):
    """The same expectation by scipy's adaptive quadrature, and its own inversion of closeness to spread."""

    def closeness(b):
        return quad(lambda d: (1.0 - d / scale) * np.exp(-d / b) / b, 0.0, scale)[0]

    spreads = [brentq(lambda b, p=p: closeness(b) - p, 0.01 * scale, 100.0 * scale) for p in correctness]

    def density(y):
        return np.exp(-sum(abs(y - vote) / b for vote, b in zip(votes, spreads, strict=True)))

    def worth(y):
        return max(0.0, 1.0 - abs(y - answer) / scale) * density(y)

    kinks = [*votes, answer, answer - scale, answer + scale]
    inside = [kink for kink in kinks if low < kink < high]
    above, below = (quad(f, low, high, points=inside, limit=200)[0] for f in (worth, density))
    return above / below


@pytest.mark.parametrize("seed", range(12))
def test_the_expectation_is_that_of_numerical_integration(seed):
    rng = np.random.default_rng(seed)
    low = rng.normal()
    high = low + 10.0 ** rng.uniform(-1.0, 2.0)
    votes = rng.uniform(low, high, size=rng.integers(1, 5)).tolist()
    correctness = rng.uniform(0.1, 0.9, size=len(votes)).tolist()
    scale = (high - low) * rng.uniform(0.2, 1.0)
    answer = float(rng.choice(votes))
    expected = _expected_closeness(answer, votes, correctness, low=low, high=high, scale=scale)
    assert expected == pytest.approx(
        by_quadrature(answer, votes, correctness, low=low, high=high, scale=scale), abs=1e-6
    )


@given(st.lists(st.tuples(unit, st.floats(-0.5, 1.5)), min_size=1, max_size=7), unit, st.floats(0.01, 1.0))
@settings(deadline=None)
def test_the_expected_closeness_is_between_0_and_1(cast, answer, scale):
    votes, correctness = zip(*cast, strict=True)
    expected = _expected_closeness(answer, votes, correctness, low=0.0, high=1.0, scale=scale)
    assert 0.0 <= expected <= 1.0


@given(chances)
@settings(deadline=None)
def test_a_single_vote_far_from_the_ends_is_worth_its_arms_correctness(p):
    expected = _expected_closeness(0.0, [0.0], [p], low=-1e4, high=1e4, scale=1.0)
    assert expected == pytest.approx(p, abs=1e-6)


@given(chances, chances)
@settings(deadline=None)
def test_a_second_vote_for_the_same_number_makes_it_more_credible(p, other):
    single = _expected_closeness(0.4, [0.4], [p], low=0.0, high=1.0, scale=1.0)
    double = _expected_closeness(0.4, [0.4, 0.4], [p, other], low=0.0, high=1.0, scale=1.0)
    assert double > single


@given(st.floats(0.01, 0.5), st.floats(0.0, 0.4))
@settings(deadline=None)
def test_the_farther_apart_two_votes_the_less_credible_their_middle(near, more):
    scores = [
        _expected_closeness(0.5, [0.5 - gap, 0.5 + gap], [0.9, 0.9], low=0.0, high=1.0, scale=1.0)
        for gap in (near * 0.1, min(near * 0.1 + more, 0.5))
    ]
    assert scores[1] <= scores[0] + 1e-12


@given(unit, st.floats(0.1, 100.0), st.floats(-50.0, 50.0))
@settings(deadline=None)
def test_neither_unit_nor_origin_matters(vote, unit_size, origin):
    plain = _expected_closeness(0.3, [vote, 0.3], [0.7, 0.9], low=0.0, high=1.0, scale=0.8)
    moved = _expected_closeness(
        origin + unit_size * 0.3,
        [origin + unit_size * vote, origin + unit_size * 0.3],
        [0.7, 0.9],
        low=origin,
        high=origin + unit_size,
        scale=0.8 * unit_size,
    )
    assert moved == pytest.approx(plain, abs=1e-6)


@pytest.mark.parametrize("unit", [1e15, 1e149, 1e200, 1e307])
def test_a_huge_range_is_scored_as_a_small_one(unit):
    def closeness(unit):
        return _expected_closeness(
            0.3 * unit, [0.3 * unit, -0.9 * unit], [0.7, 0.9], low=-unit, high=unit, scale=0.8 * unit
        )

    assert closeness(unit) == pytest.approx(closeness(1.0), abs=1e-12)


def test_the_largest_floats_are_scored():
    score = _expected_closeness(0.0, [-1e308, 1e308], [0.9, 0.9], low=-1e308, high=1e308, scale=1e308)
    assert 0.0 < score < 1.0


def test_two_certain_arms_that_disagree_give_a_finite_score():
    assert 0.0 < _expected_closeness(0.5, [0.2, 0.8], [1.0, 1.0], low=0.0, high=1.0, scale=1.0) < 1.0


@pytest.mark.parametrize("exponent", [0.0, -1e-9, -5e-4, -0.999e-3, -1.001e-3, -0.1, -3.0, -80.0])
def test_the_integrals_of_an_exponential_are_exact_near_zero_too(exponent):
    level, slope = _moments(np.array([exponent]))
    assert level[0] == pytest.approx(quad(lambda u: np.exp(exponent * u), 0.0, 1.0)[0], abs=1e-9)
    assert slope[0] == pytest.approx(quad(lambda u: u * np.exp(exponent * u), 0.0, 1.0)[0], abs=1e-9)
