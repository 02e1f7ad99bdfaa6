"""Corrections of a conditional logit are taken up as far as held-out rounds prove them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from camvo.numerics.logit import (
    ChoiceSets,
    NormalPrior,
    _fit_conditional_logit,
    fit_averaged_logit,
    fit_proven_logit,
)

PRIOR = NormalPrior(np.array([1.0, 0.0, 0.0]), np.array([2.0, 20.0, 20.0]))
CORRECTIONS = np.array([False, True, True])
TIGHTNESSES = (16.0, 4.0, 1.0)


def drawn(coefficients: list[float], rounds: int, seed: int = 0) -> ChoiceSets:
    """Choices among three candidates each, drawn from these coefficients."""
    rng = np.random.default_rng(seed)
    design = rng.normal(size=(3 * rounds, 3))
    noise = rng.gumbel(size=3 * rounds)
    best = (design @ coefficients + noise).reshape(-1, 3).argmax(axis=1)
    chosen = np.zeros((rounds, 3), dtype=bool)
    chosen[np.arange(rounds), best] = True
    return ChoiceSets(sparse.csr_matrix(design), np.arange(0, 3 * rounds, 3), chosen.ravel())


def fit(choices: ChoiceSets) -> np.ndarray:
    return fit_proven_logit(choices, PRIOR, CORRECTIONS, TIGHTNESSES)


def test_corrections_that_held_out_rounds_prove_are_those_of_the_loosest_prior():
    choices = drawn([1.0, 1.5, -1.0], 300)
    assert fit(choices) == pytest.approx(_fit_conditional_logit(choices, PRIOR), abs=1e-6)


def test_corrections_that_nothing_proves_are_zero_and_the_other_coefficients_fitted_without_them():
    choices = drawn([0.4, 0.0, 0.0], 300)
    alone = _fit_conditional_logit(
        replace(choices, design=choices.design[:, :1]), NormalPrior(PRIOR.mean[:1], PRIOR.precision[:1])
    )
    assert fit(choices) == pytest.approx([*alone, 0.0, 0.0], abs=1e-6)


def test_corrections_that_are_not_there_are_seldom_taken_up():
    taken = [bool(fit(drawn([1.0, 0.0, 0.0], 60, seed))[1:].any()) for seed in range(40)]
    assert sum(taken) <= 12


def test_a_lower_bar_takes_up_corrections_more_often_but_not_always():
    weak = [drawn([1.0, 0.15, -0.15], 60, seed) for seed in range(20)]
    high, low = (
        [bool(fit_proven_logit(each, PRIOR, CORRECTIONS, TIGHTNESSES, bar)[1:].any()) for each in weak]
        for bar in (1.0, 0.0)
    )
    assert sum(high) < sum(low) < len(weak)
    assert all(lower or not higher for higher, lower in zip(high, low, strict=True))


def test_below_ten_rounds_nothing_is_proven():
    assert not fit(drawn([1.0, 5.0, -5.0], 9))[1:].any()


def test_some_proof_takes_up_a_tighter_prior_than_the_loosest():
    sizes = [np.abs(fit(drawn([1.0, 0.15, -0.15], 150, seed))[1:]).max() for seed in range(20)]
    loosest = [
        np.abs(_fit_conditional_logit(drawn([1.0, 0.15, -0.15], 150, seed), PRIOR)[1:]).max()
        for seed in range(20)
    ]
    assert any(0.0 < size < loose - 1e-3 for size, loose in zip(sizes, loosest, strict=True))


def averaged(choices: ChoiceSets) -> np.ndarray:
    return fit_averaged_logit(choices, PRIOR, CORRECTIONS, TIGHTNESSES)


def test_clear_corrections_are_averaged_to_those_of_the_loosest_prior():
    choices = drawn([1.0, 1.5, -1.0], 300)
    assert averaged(choices) == pytest.approx(_fit_conditional_logit(choices, PRIOR), abs=1e-3)


def test_averaged_corrections_that_are_not_there_are_smaller_than_unproven_ones():
    nothing = [drawn([1.0, 0.0, 0.0], 60, seed) for seed in range(20)]
    mean, loose = (
        np.mean([np.abs(fitted[1:]).max() for fitted in map(way, nothing)])
        for way in (averaged, lambda choices: _fit_conditional_logit(choices, PRIOR))
    )
    assert mean < 0.75 * loose


def test_below_ten_rounds_nothing_is_averaged_in():
    assert not averaged(drawn([1.0, 5.0, -5.0], 9))[1:].any()
