from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaincinv
from scipy.stats import binom

from camvo.errors import InvalidParameterError
from camvo.scores.guarantee import _GRID, Guarantee

ALL = (0.0,)

BETS = [1.0 - (1.0 - (number + 0.5) / 32) ** 2 for number in range(32)]
"""The quantiles of Beta(1, ½) at the middles of 32 equal parts."""


def after(right, wrong, grid=ALL, **parameters):
    guarantee = Guarantee(grid, **parameters)
    guarantee.update([(1.0, 1.0)] * right + [(1.0, 0.0)] * wrong)
    return guarantee


def counted(right, wrong, **parameters):
    guarantee = Guarantee(ALL, **parameters)
    guarantee.counts[1] = wrong, right
    return guarantee


def ever_claims(claims, chances):
    """The probability that somebody who looks after every label ever sees a claim, exactly.

    ``claims(n, right)`` rises with ``right``; ``chances`` are those of the labels to be right.
    """
    alive, claimed, least = np.array([1.0]), 0.0, 0
    for n, chance in enumerate(chances, start=1):
        alive = np.append(alive * (1 - chance), 0.0) + np.append(0.0, alive * chance)
        while least <= n and not claims(n, least):
            least += 1
        claimed += alive[least:].sum()
        alive[least:] = 0.0
    return claimed


def ours(n, right):
    return counted(right, n - right).log_wealth(0.97)[0] >= math.log(20)


def clopper_pearson(n, right):
    return right > 0 and betaincinv(right, n - right + 1.0, 0.05) >= 0.97


def test_looking_after_every_label_breaks_clopper_pearson_but_not_the_betting_test():
    chances = [0.97] * 1000
    assert ever_claims(clopper_pearson, chances) > 0.15
    assert 0.005 < ever_claims(ours, chances) <= 0.05


def test_it_holds_under_drift_as_long_as_the_mean_chance_is_below_the_target():
    assert ever_claims(ours, [0.94] * 200 + [1.0] * 200) <= 0.05
    assert ever_claims(ours, [0.94, 1.0] * 300) <= 0.05


def test_all_thresholds_together_hold_under_optional_stopping():
    rng = np.random.default_rng(1)
    claimed = 0
    for _ in range(100):
        guarantee = Guarantee()
        scores, right = rng.uniform(0.4, 1.0, 600), rng.random(600) < 0.97
        for start in range(0, 600, 40):
            guarantee.update(zip(scores[start : start + 40], right[start : start + 40], strict=True))
            if guarantee.certified() is not None:
                claimed += 1
                break
    assert claimed <= 5


@given(right=st.lists(st.booleans(), max_size=30), share=st.floats(0.05, 0.95))
@settings(max_examples=50, deadline=None)
def test_the_wealth_is_the_mixture_over_bets(right, share):
    bets = [bet / share for bet in BETS]
    wealth = math.fsum(math.prod(1 + bet * (r - share) for r in right) for bet in bets) / 32
    log_wealth = after(sum(right), len(right) - sum(right)).log_wealth(share)[0]
    assert log_wealth == pytest.approx(math.log(wealth), abs=1e-9)


@given(n=st.integers(1, 40), share=st.floats(0.05, 0.95), worse=st.floats(0.001, 1.0))
@settings(max_examples=40, deadline=None)
def test_the_wealth_is_a_martingale_at_the_share_and_a_supermartingale_below_it(n, share, worse):
    wealths = np.array([math.exp(counted(k, n - k).log_wealth(share)[0]) for k in range(n + 1)])
    assert binom.pmf(range(n + 1), n, share) @ wealths == pytest.approx(1.0, rel=1e-9)
    assert binom.pmf(range(n + 1), n, worse * share) @ wealths <= 1.0 + 1e-9


@given(right=st.integers(0, 500), wrong=st.integers(0, 50))
@settings(max_examples=30, deadline=None)
def test_a_right_label_raises_the_bound_and_a_wrong_one_lowers_it(right, wrong):
    bound = counted(right, wrong).bounds[0]
    assert counted(right + 1, wrong).bounds[0] >= bound >= counted(right, wrong + 1).bounds[0]
    assert 0.0 <= bound <= (right / (right + wrong) if right else 0.0)


def test_the_bound_is_slightly_below_the_bound_for_a_single_look():
    once = betaincinv(1960, 41.0, 0.05)
    assert once - 0.01 < counted(1960, 40).bounds[0] < once


def test_bounds_and_certificates_agree():
    for right in range(150, 300, 7):
        guarantee = counted(right, 1)
        assert (guarantee.bounds[0] >= 0.97) == (guarantee.certified() is not None)


def test_the_smallest_certified_threshold_is_returned_with_its_counts():
    guarantee = Guarantee((0.5, 0.8, 0.9))
    guarantee.update([(0.95, 1.0)] * 500 + [(0.85, 1.0)] * 300 + [(0.85, 0.0)] * 2)
    guarantee.update([(0.6, 0.0)] * 100 + [(0.1, 1.0)] * 98)
    certificate = guarantee.certified()
    assert (certificate.threshold, certificate.audits, certificate.right) == (0.8, 802, 800)
    assert certificate.freed == pytest.approx(0.802)
    assert 0.97 <= certificate.bound < 800 / 802


def test_a_score_on_the_threshold_counts():
    guarantee = Guarantee((0.8,))
    guarantee.update([(0.8, 1.0)] * 300)
    assert guarantee.certified().audits == 300


@pytest.mark.parametrize("grid", [ALL, _GRID])
def test_without_evidence_nothing_is_certified(grid):
    assert Guarantee(grid).certified() is None
    assert after(80, 0, grid).certified() is None
    np.testing.assert_array_equal(Guarantee(grid).bounds, 0.0)


def needed(score, grid=_GRID):
    """The number of right labels with this score that certify something."""
    guarantee = Guarantee(grid)
    for labels in range(1, 1000):
        guarantee.update([(score, 1.0)])
        if guarantee.certified():
            return labels
    raise AssertionError(score)


def test_labels_that_reach_the_highest_threshold_certify_soonest():
    assert (needed(1.0, ALL), needed(0.99), needed(0.96), needed(0.5)) == (125, 147, 233, 233)


def test_the_errors_of_all_thresholds_sum_to_alpha():
    for grid in (ALL, _GRID, (0.5, 0.9)):
        errors = Guarantee(grid, confidence=0.9)._own_errors
        assert errors.sum() == pytest.approx(0.1)
        assert errors[-1] == pytest.approx(0.05 + 0.05 / len(grid))


def test_a_certified_threshold_hands_its_error_down():
    """172 labels from 0.8 on are too few for that threshold's own error, and enough with one from above."""
    alone, below = Guarantee((0.8, 0.9)), Guarantee((0.8, 0.9))
    alone.update([(0.85, 1.0)] * 172)
    below.update([(0.95, 1.0)] * 172)
    assert alone.certified() is None
    assert below.certified().threshold == 0.8


def test_a_threshold_that_is_not_certified_hands_nothing_down():
    guarantee = Guarantee((0.7, 0.8, 0.9))
    guarantee.update([(0.95, 1.0)] * 200 + [(0.85, 0.0)] * 40 + [(0.75, 1.0)] * 5)
    assert guarantee.certified().threshold == 0.9


def test_the_highest_threshold_alone_can_be_certified():
    guarantee = Guarantee()
    guarantee.update([(0.99, 1.0)] * 147 + [(0.96, 0.0)] * 40)
    assert guarantee.certified().threshold == 0.975


def test_a_certified_bound_is_at_least_the_target():
    for labels in range(147, 260, 8):
        guarantee = Guarantee()
        guarantee.update([(0.99, 1.0)] * labels)
        assert guarantee.certified().bound >= 0.97


def test_a_withdrawn_answer_leaves_no_trace():
    guarantee = after(300, 3, _GRID)
    guarantee.update([(0.7, 0.0), (0.95, 0.25)])
    guarantee.update([(0.95, 0.25), (0.7, 0.0)], sign=-1)
    np.testing.assert_array_equal(guarantee.counts, after(300, 3, _GRID).counts)


@given(right=st.lists(st.floats(0, 1), max_size=20), share=st.floats(0.05, 0.95))
@settings(max_examples=40, deadline=None)
def test_partly_right_labels_never_raise_the_wealth(right, share):
    guarantee = Guarantee(ALL)
    guarantee.update((1.0, r) for r in right)
    bets = [bet / share for bet in BETS]
    wealth = math.fsum(math.prod(1 + bet * (r - share) for r in right) for bet in bets) / 32
    assert guarantee.log_wealth(share)[0] <= math.log(wealth) + 1e-9


@pytest.mark.parametrize(
    "parameters",
    [{"grid": ()}, {"grid": (0.5, 0.5)}, {"grid": (0.5, 1.1)}, {"target": 1.0}, {"confidence": 0.0}],
)
def test_parameters_that_make_no_sense_are_refused(parameters):
    with pytest.raises(InvalidParameterError):
        Guarantee(**parameters)


@pytest.mark.parametrize("audit", [(1.1, 1.0), (0.5, -0.1)])
def test_an_audit_that_makes_no_sense_is_refused(audit):
    with pytest.raises(InvalidParameterError):
        Guarantee().update([audit])
