"""Wagers, the test of a promise and the test of exchangeability, which are e-processes."""

from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from camvo.errors import InvalidParameterError
from camvo.numerics.sequential_tests import (
    STEPS,
    ExchangeabilityTest,
    PromiseTest,
    _factors,
    _Wager,
)
from camvo.state.state import _needed_evidence

TILTS = (1.0, 4.0, -1.5)


def scored(scores, rng, stratum=lambda number: ("a",)):
    test = ExchangeabilityTest(TILTS)
    for number, score in enumerate(scores):
        test.add(stratum(number), int(score), rng.random())
    return test


def test_a_wager_without_an_edge_keeps_its_wealth():
    wager = _Wager(2)
    for _ in range(50):
        wager.add((1.0, 1.0))
    assert wager.evidence == pytest.approx(0.0, abs=1e-12)
    assert wager.count == 50


def test_a_wager_on_a_bet_that_doubles_gains_nearly_ln_2_each_time():
    wager = _Wager(1)
    for _ in range(1_000):
        wager.add((2.0,))
    assert 990 * math.log(2.0) < wager.evidence < 1_000 * math.log(2.0)


@given(st.lists(st.booleans(), max_size=12), st.floats(0.0, 1.0))
def test_the_wealth_of_a_kept_promise_shrinks_on_average_whatever_came_before(outcomes, promised):
    """The mean over the next outcome, by direct enumeration: the definition of a supermartingale."""

    def wealth(*later):
        test = PromiseTest()
        for right in (*outcomes, *later):
            test.add(promised, right=right)
        return math.exp(test.evidence)

    mean = promised * wealth(False) + (1.0 - promised) * wealth(True)
    assert mean <= wealth() * (1.0 + 1e-9)


@given(st.lists(st.integers(0, STEPS), min_size=20, max_size=30), st.sampled_from(TILTS))
def test_the_wealth_of_exchangeable_scores_stays_the_same_on_average(scores, tilt):
    """The mean over the rank of the next score, which is uniform; the bet is constant on n + 2 intervals."""
    counts, intervals = Counter(scores), len(scores) + 2
    ranks = (np.arange(intervals) + 0.5) / intervals
    factors = [_factors(counts, float(rank), (tilt,))[0] for rank in ranks]
    assert np.mean(factors) == pytest.approx(1.0, rel=1e-12)


def test_a_kept_promise_is_hardly_ever_said_to_be_broken_however_often_one_looks():
    rng = np.random.default_rng(1)
    false = 0
    for wrong in rng.random((100, 400)) < 0.05:
        test, most = PromiseTest(), 0.0
        for each in wrong:
            test.add(0.05, right=not each)
            most = max(most, test.evidence)
        false += most >= math.log(1 / 0.05)
    assert false <= 0.05 * 100 + 2 * math.sqrt(0.05 * 0.95 * 100)


def test_unchanged_scores_hardly_ever_raise_an_alarm_in_strata_with_scores_of_their_own():
    rng, false = np.random.default_rng(2), 0
    for _ in range(60):
        second = rng.random(300) < 0.5
        scores = np.where(second, rng.binomial(STEPS, 0.6, 300), STEPS * (rng.random(300) < 0.1))
        test, most = ExchangeabilityTest(TILTS), 0.0
        for name, score in zip(second, scores, strict=True):
            test.add(("b",) if name else ("a",), int(score), rng.random())
            most = max(most, test.evidence)
        false += most >= math.log(1 / 0.05)
    assert false <= 0.05 * 60 + 2 * math.sqrt(0.05 * 0.95 * 60)


def test_a_promise_that_is_broken_three_times_as_often_is_noticed():
    test = PromiseTest()
    for number in range(500):
        test.add(0.01, right=number % 33 > 0)
    assert test.evidence > math.log(1 / 0.05)


def test_a_promise_of_nothing_survives_a_single_error():
    test = PromiseTest()
    test.add(0.0, right=False)
    assert test.evidence < math.log(1 / 0.05)


def test_a_promise_is_a_probability():
    with pytest.raises(InvalidParameterError, match=r"must be in \[0, 1\], got 1.5"):
        PromiseTest().add(1.5, right=True)


@pytest.mark.parametrize("before", [50, 1_000])
def test_a_change_of_scores_is_noticed_soon_after_few_and_after_many(before):
    rng = np.random.default_rng(3)
    scores = STEPS * (rng.random(before + 60) < np.repeat([0.1, 0.7], [before, 60]))
    assert scored(scores[:before], rng).evidence < 1.0
    assert scored(scores, rng).evidence > math.log(1 / 0.001)


def test_votes_that_never_differed_are_a_basis_too():
    rng = np.random.default_rng(4)
    assert scored([0] * 200 + [STEPS] * 10, rng).evidence > math.log(1 / 0.05)


def test_the_mix_of_strata_may_change_at_any_time():
    rng = np.random.default_rng(5)
    scores = [STEPS if number >= 300 else 0 for number in range(600)]
    test = scored(scores, rng, lambda number: ("late",) if number >= 300 else ("early",))
    assert test.evidence < 1.0


def test_a_restarted_test_forgets_only_strata_with_the_name():
    rng = np.random.default_rng(6)
    test = scored([0] * 100, rng, lambda number: ("a", "b") if number % 2 else ("b",))
    test.restart(without="a")
    test.add(("b",), 0, 0.5)
    test.add(("a", "b"), 0, 0.5)
    assert test.tried == 1


def test_stored_tests_go_on_as_if_they_had_never_been_stored():
    rng = np.random.default_rng(7)
    scores, draws = rng.integers(0, STEPS + 1, 80), rng.random(80)
    test, promise = ExchangeabilityTest(TILTS), PromiseTest()
    for number, (score, draw) in enumerate(zip(scores.tolist(), draws.tolist(), strict=True)):
        if number == 50:
            test_again = ExchangeabilityTest.from_list(json.loads(json.dumps(test.to_list())))
            promise_again = PromiseTest.from_list(json.loads(json.dumps(promise.to_list())))
        test.add(("a",), score, draw)
        promise.add(0.1, right=score > 2)
        if number >= 50:
            test_again.add(("a",), score, draw)
            promise_again.add(0.1, right=score > 2)
    assert (test, promise) == (test_again, promise_again)


def test_a_series_of_tests_shares_one_level():
    spent = sum(math.exp(-_needed_evidence(0.05, earlier)) for earlier in range(100_000))
    assert spent == pytest.approx(0.05, rel=1e-4)
