from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from camvo.joint.agreement import _fold_counts

PATTERNS = st.dictionaries(
    st.lists(st.integers(-2, 3), min_size=3, max_size=3).map(tuple), st.integers(0, 60), min_size=1
)


def folded(patterns, folds):
    return _fold_counts(np.array([*patterns]), np.array([*patterns.values()], dtype=np.float64), folds)


@given(PATTERNS, st.integers(2, 8))
def test_every_round_is_in_one_fold(patterns, folds):
    assert folded(patterns, folds).sum(axis=0).tolist() == list(patterns.values())


@given(PATTERNS, st.integers(0, 20))
def test_a_later_round_changes_the_fold_of_no_earlier_one(patterns, more):
    grown = {groups: count + more for groups, count in patterns.items()}
    added = folded(grown, 5) - folded(patterns, 5)
    assert (added >= 0.0).all()
    assert (added.sum(axis=0) == more).all()


def test_folds_have_about_the_same_size():
    sizes = folded({(0, 0, number): 10 for number in range(200)}, 5).sum(axis=1)
    assert np.abs(sizes - 400.0).max() < 4.0 * np.sqrt(2000 * 0.2 * 0.8)


def test_folds_of_one_row_are_independent_of_those_of_another():
    counts = folded({(0, 0, number): 1 for number in range(400)}, 2)
    assert 150 < counts[0].sum() < 250
