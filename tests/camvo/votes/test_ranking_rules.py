from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camvo.votes.rankings import (
    _MAX_KEMENY_ITEMS,
    _borda_points,
    _kemeny_order,
    _order_by_totals,
    _pairwise_preferences,
)

seeds = st.integers(0, 2**32 - 1)


def agreeing(order, preferences):
    return sum(preferences[above, below] for above, below in combinations(order, 2))


@given(st.integers(1, 6), st.integers(1, 5), seeds)
@settings(deadline=None, max_examples=60)
def test_no_other_order_agrees_with_more_weight_than_kemenys(m, n, seed):
    rng = np.random.default_rng(seed)
    preferences = np.tensordot(
        rng.random(n), _pairwise_preferences(rng.permuted(np.tile(np.arange(m), (n, 1)), axis=1)), 1
    )
    order = _kemeny_order(preferences, preferences)
    best = max(agreeing(other, preferences) for other in permutations(range(m)))
    assert sorted(order) == list(range(m))
    assert agreeing(order, preferences) == pytest.approx(best, abs=1e-9)


@given(st.integers(2, 5), seeds)
@settings(deadline=None, max_examples=60)
def test_a_tie_goes_to_the_tie_breakers_and_then_to_the_items_that_come_first(m, seed):
    rng = np.random.default_rng(seed)
    preferences = rng.integers(0, 3, size=(m, m)).astype(float)
    lower = rng.integers(0, 2, size=(m, m)).astype(float)
    expected = max(
        permutations(range(m)),
        key=lambda order: (agreeing(order, preferences), agreeing(order, lower), [-item for item in order]),
    )
    assert _kemeny_order(preferences, lower) == list(expected)


def test_the_longest_list_that_is_allowed_is_ordered():
    m = _MAX_KEMENY_ITEMS
    wanted = np.random.default_rng(1).permutation(m)
    heights = np.empty(m)
    heights[wanted] = np.arange(m)[::-1]
    assert _kemeny_order(_pairwise_preferences(heights), np.zeros((m, m))) == wanted.tolist()


def test_a_cycle_is_broken_where_it_costs_least():
    # a beats b by 3, b beats c by 2, c beats a by 1.
    cycle = np.array([[0.0, 3.0, 0.0], [0.0, 0.0, 2.0], [1.0, 0.0, 0.0]])
    assert _kemeny_order(cycle, np.zeros((3, 3))) == [0, 1, 2]


@given(st.lists(st.integers(0, 4).map(float), min_size=2, max_size=7))
@settings(deadline=None)
def test_bordas_points_count_the_items_below_and_half_of_the_level_ones(heights):
    expected = [
        sum(1.0 if mine > other else 0.5 if mine == other else 0.0 for other in heights) - 0.5
        for mine in heights
    ]
    assert _borda_points(np.array(heights)).tolist() == expected
    assert _borda_points(np.array(heights)).sum() == len(heights) * (len(heights) - 1) / 2.0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=8))
@settings(deadline=None)
def test_totals_are_sorted_then_tie_breakers_then_positions(pairs):
    totals, lower = (np.array(column, dtype=float) for column in zip(*pairs, strict=True))
    expected = sorted(range(len(pairs)), key=lambda item: (-totals[item], -lower[item], item))
    assert _order_by_totals(totals, lower) == expected


def test_rounding_does_not_decide_an_order():
    assert _order_by_totals(np.array([0.3, 0.1 + 0.2]), np.array([0.5, 0.5])) == [0, 1]
