"""Whether examples help, beside a plain simulation and SciPy's own distributions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta

from camvo.scores.reviews import _MIN_SHARE, ExampleTrial


def test_before_any_vote_examples_help_with_probability_one_half() -> None:
    assert ExampleTrial().helps == pytest.approx(0.5)


@pytest.mark.parametrize(
    "tried", [ExampleTrial(8, 10, 5, 10), ExampleTrial(40, 90, 300, 500), ExampleTrial(0, 3, 2.5, 3)]
)
def test_helps_is_the_probability_that_one_beta_variable_is_larger(tried: ExampleTrial) -> None:
    with_, without = (
        beta(1 + right, 1 + votes - right)
        for right, votes in (
            (tried.right_with, tried.votes_with),
            (tried.right_without, tried.votes_without),
        )
    )
    expected, _ = quad(lambda share: with_.pdf(share) * without.cdf(share), 0, 1, limit=200)
    assert tried.helps == pytest.approx(expected, abs=1e-4)


def test_swapping_with_and_without_gives_the_complement() -> None:
    assert ExampleTrial(30, 40, 20, 40).helps + ExampleTrial(20, 40, 30, 40).helps == pytest.approx(
        1.0, abs=1e-4
    )


def test_a_model_that_examples_mislead_still_gets_them_in_a_tenth_of_rounds() -> None:
    assert ExampleTrial(100, 1000, 900, 1000).share == _MIN_SHARE


def test_a_model_that_examples_help_still_goes_without_in_a_tenth_of_rounds() -> None:
    assert ExampleTrial(900, 1000, 100, 1000).share == 1 - _MIN_SHARE


def test_thousands_of_votes_give_a_finite_probability() -> None:
    assert np.isfinite(ExampleTrial(90_000, 100_000, 89_900, 100_000).helps)
