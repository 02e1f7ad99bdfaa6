"""The intervals of labels' shares: what they hold over many samples, and what they are made of."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shares import DRAWN, KINDS, Tasks, measure

from camvo.errors import InvalidParameterError
from camvo.shares import _count_bounds, label_shares

RUNS = 1000

MANY = "22 labels, models right in 66%"

CASES = [(kind, drawn) for kind in KINDS for drawn in DRAWN if (kind, drawn) != (MANY, 1000)]
"""The kinds of data and numbers of blind labels; one that takes long is left to ``benchmarks/shares.py``."""


def informative(kind):
    return "guess" not in kind and "wrongly" not in kind


@st.composite
def tables(draw):
    """Population, tasks with the label by the models, and a sample of both kinds with its human labels."""
    predicted, other = draw(st.integers(0, 60)), draw(st.integers(0, 60))
    n1, n0 = draw(st.integers(0, predicted)), draw(st.integers(0, other))
    hits, misses = draw(st.integers(0, n1)), draw(st.integers(0, n0))
    return (predicted, predicted + other, n1, n1 + n0, hits, misses) if n1 + n0 else (1, 2, 1, 1, 0, 0)


@cache
def measured(kind, drawn):
    return measure(KINDS[kind](1), drawn, RUNS)


@pytest.mark.parametrize(("kind", "drawn"), CASES)
def test_an_interval_holds_the_true_share_in_at_least_93_of_100_samples(kind, drawn):
    assert measured(kind, drawn).held.min() >= 0.93


@pytest.mark.parametrize(("kind", "drawn"), [case for case in CASES if case[1] >= 300])
def test_it_is_no_wider_than_the_exact_one_of_the_blind_labels_alone(kind, drawn):
    found = measured(kind, drawn)
    assert (found.width <= found.alone + 1e-12).all()


@pytest.mark.parametrize(
    ("kind", "drawn"), [case for case in CASES if case[1] >= 300 and informative(case[0])]
)
def test_it_is_narrower_on_average_than_any_of_the_blind_labels_alone_if_models_know_something(kind, drawn):
    found = measured(kind, drawn)
    assert found.width.mean() < min(found.alone.mean(), found.normal_alone.mean())


def test_the_normal_interval_of_ppi_would_not_hold_where_models_hardly_err():
    assert measured("3 labels, models right in 99.7%", 300).normal_held.min() < 0.6


@given(tables())
@settings(max_examples=200, deadline=None)
def test_the_estimate_is_that_of_ppi_with_the_samples_lambda(table):
    predicted, population, n1, drawn, hits, misses = table
    found = label_shares(*table)
    if found.exact or not 0 < n1 < drawn:
        return
    f = np.repeat([1.0, 0.0], [n1, drawn - n1])
    y = np.concatenate([np.arange(n1) < hits, np.arange(drawn - n1) < misses]).astype(float)
    power_tuned = np.cov(y, f)[0, 1] / f.var(ddof=1)
    estimate = power_tuned * predicted / population + (y - power_tuned * f).mean()
    assert found.share == pytest.approx(estimate)


@given(tables())
@settings(max_examples=200, deadline=None)
def test_the_bounds_are_around_the_estimate_and_in_0_and_1(table):
    found = label_shares(*table)
    assert 0.0 <= found.low <= found.share + 1e-12 <= found.high + 2e-12 <= 1.0 + 3e-12


def test_a_rare_label_gets_the_exact_interval_of_the_sample():
    found = label_shares(40, 5000, 3, 300, 2, 1)
    low, high = _count_bounds(3, 300, 5000)
    assert found.exact
    assert (found.low, found.high) == (low / 5000, high / 5000)


def test_a_label_that_is_missing_rarely_does_too():
    assert label_shares(4960, 5000, 297, 300, 296, 1).exact


def test_blind_labels_of_all_tasks_leave_no_doubt():
    found = label_shares(50, 100, 50, 100, 40, 10)
    assert (found.low, found.share, found.high) == (0.5, 0.5, 0.5)


def test_more_blind_labels_narrow_the_interval():
    some, more = (label_shares(2000, 5000, 40 * k, 100 * k, 36 * k, 5 * k) for k in (1, 4))
    assert more.high - more.low < 0.6 * (some.high - some.low)


def test_counts_of_several_samples_may_be_given_at_once():
    both = label_shares([1000, 2000], 5000, [60, 120], 300, [57, 110], [6, 9])
    each = [label_shares(1000, 5000, 60, 300, 57, 6), label_shares(2000, 5000, 120, 300, 110, 9)]
    assert both.low.tolist() == [float(one.low) for one in each]


@pytest.mark.parametrize(
    "counts",
    [
        (1000, 5000, 0, 0, 0, 0),
        (10, 5000, 11, 300, 0, 0),
        (4990, 5000, 250, 300, 0, 0),
        (50, 60, 40, 70, 1, 1),
    ],
)
def test_counts_that_contradict_one_another_are_refused(counts):
    with pytest.raises(InvalidParameterError):
        label_shares(*counts)


def test_the_made_up_tasks_are_of_the_size_that_is_stated():
    tasks = KINDS["6 labels, any number of them"](1)
    assert isinstance(tasks, Tasks)
    assert tasks.truth.shape == tasks.models.shape == (5000, 6)
