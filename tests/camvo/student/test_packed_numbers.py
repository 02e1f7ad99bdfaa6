"""Sets of numbers in few bytes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from camvo.student import _BOUND, _pack_numbers, _unpack_numbers

SETS = st.sets(st.integers(0, _BOUND - 1), max_size=300)


@given(SETS)
def test_any_set_comes_back(numbers: set[int]) -> None:
    assert _unpack_numbers(_pack_numbers(np.array(sorted(numbers)))).tolist() == sorted(numbers)


@given(SETS, SETS)
def test_bytes_are_equal_exactly_where_sets_are(one: set[int], other: set[int]) -> None:
    packed = [_pack_numbers(np.array(sorted(numbers))) for numbers in (one, other)]
    assert (packed[0] == packed[1]) == (one == other)


@pytest.mark.parametrize("count", [1, 2, 150, 500, 1500, _BOUND // 2, _BOUND - 1, _BOUND])
def test_sets_of_every_size_come_back_and_take_little_more_than_their_entropy(count: int) -> None:
    numbers = np.sort(np.random.default_rng(count).permutation(_BOUND)[:count])
    packed = _pack_numbers(numbers)
    assert np.array_equal(_unpack_numbers(packed), numbers)
    if 100 <= count <= _BOUND // 2:
        assert len(packed) < 1.05 * math.log2(math.comb(_BOUND, count)) / 8 + 4
