from __future__ import annotations

import numpy as np
import pytest

from camvo.weights.redrawn_labels import changed_labels, redrawn_counts

COUNTS = np.array([50.0, 30.0, 0.0, 20.0])


def test_drawn_rounds_are_as_many_and_have_the_same_mean():
    drawn = redrawn_counts(COUNTS, draws=4000)
    assert drawn.sum(axis=1) == pytest.approx(100.0)
    assert drawn.mean(axis=0) == pytest.approx(COUNTS, abs=0.5)


def test_drawn_counts_vary_as_those_of_the_bayesian_bootstrap():
    """A share with n rounds behind it is Beta distributed: variance p(1 − p)/(n + 1)."""
    share = redrawn_counts(COUNTS, draws=4000)[:, 0] / 100.0
    assert share.std() == pytest.approx(np.sqrt(0.25 / 101.0), rel=0.1)


def test_a_pattern_that_never_came_is_never_drawn():
    assert not redrawn_counts(COUNTS, draws=50)[:, 2].any()


def test_no_label_changes_if_labels_do_not_depend_on_the_rounds():
    assert changed_labels(COUNTS, lambda counts: np.zeros(counts.shape, dtype=np.int64)) == 0.0


def test_a_label_that_hangs_on_a_close_call_changes_in_half_of_the_draws():
    counts = np.array([500.0, 500.0])

    def majority(drawn):
        return np.repeat((drawn[:, :1] > drawn[:, 1:]).astype(np.int64), 2, axis=1)

    assert changed_labels(counts, majority, draws=400) == pytest.approx(0.5, abs=0.1)


def test_changed_labels_count_by_their_rounds():
    def labels_of(drawn):
        labels = np.zeros(drawn.shape, dtype=np.int64)
        labels[1:, 0] = 1
        return labels

    assert changed_labels(np.array([25.0, 75.0]), labels_of) == pytest.approx(0.25)


def test_without_rounds_nothing_is_settled():
    assert changed_labels(np.zeros(3), lambda counts: np.zeros(counts.shape, dtype=np.int64)) == 1.0


def test_the_same_seed_draws_the_same():
    assert redrawn_counts(COUNTS, seed=3).tolist() == redrawn_counts(COUNTS, seed=3).tolist()
