"""The paired comparison of two ways of labelling."""

from __future__ import annotations

import pytest

from camvo.numerics.sequential_tests import compare_paired


def pairs(both: int, gained: int, lost: int, neither: int = 0) -> list[tuple[float, float]]:
    return [(1.0, 1.0)] * both + [(0.0, 1.0)] * gained + [(1.0, 0.0)] * lost + [(0.0, 0.0)] * neither


def test_the_interval_is_that_of_bonett_and_price() -> None:
    """Their formula, by hand: p12 = 10/52 and p21 = 2/52 after one task is added to each."""
    found = compare_paired(pairs(both=30, gained=9, lost=1, neither=10))
    assert found is not None
    centre = 8 / 52
    half = 1.959963984540054 * ((12 / 52 - centre**2) / 52) ** 0.5
    assert (found.low, found.high) == pytest.approx((centre - half, centre + half), rel=1e-12)
    assert found.difference == pytest.approx(8 / 50)
    assert found.more == 0


def test_a_small_difference_names_the_tasks_that_would_tell() -> None:
    found = compare_paired(pairs(both=90, gained=6, lost=4))
    assert found is not None
    assert found.more == 1.959963984540054**2 * 0.1 / 0.02**2 // 1 + 1 - 100


def test_equal_ways_are_told_apart_by_no_number_of_tasks() -> None:
    found = compare_paired(pairs(both=5, gained=2, lost=2))
    assert found is not None
    assert found.more is None


def test_no_task_gives_no_comparison() -> None:
    assert compare_paired([]) is None
