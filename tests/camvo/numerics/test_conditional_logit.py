from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime

from camvo.numerics.logit import ChoiceSets, NormalPrior, _fit_conditional_logit, _lbfgs, _newton


def drawn(rounds=400, seed=0, coefficients=(1.5, -0.5, 0.0), candidates=3):
    rng = np.random.default_rng(seed)
    design = rng.normal(size=(rounds * candidates, len(coefficients)))
    z = (design @ np.array(coefficients)).reshape(rounds, candidates)
    best = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    chosen = np.arange(candidates) == best[:, None]
    return ChoiceSets(sparse.csr_matrix(design), np.arange(rounds) * candidates, chosen.ravel())


def flat(size, precision=1e-9):
    return NormalPrior(np.zeros(size), np.full(size, precision))


def test_two_candidates_make_a_logistic_regression_on_their_difference():
    linear_model = pytest.importorskip("sklearn.linear_model")
    choices = drawn(candidates=2)
    design = choices.design.toarray()
    difference = design[0::2] - design[1::2]
    first = choices.chosen[0::2]
    model = linear_model.LogisticRegression(C=0.5, fit_intercept=False, tol=1e-10).fit(difference, first)
    assert _fit_conditional_logit(choices, flat(3, precision=2.0)) == pytest.approx(model.coef_[0], abs=1e-4)


def test_the_fit_recovers_the_coefficients_that_generated_the_choices():
    assert _fit_conditional_logit(drawn(rounds=4000), flat(3)) == pytest.approx([1.5, -0.5, 0.0], abs=0.12)


def test_both_searches_find_the_same_coefficients():
    choices = drawn(coefficients=(9.0, -0.5, 0.1))
    start = np.array([-20.0, 5.0, 5.0])  # Newton's whole step would go too far from here
    newton, lbfgs = (search(choices, flat(3, precision=0.1), start) for search in (_newton, _lbfgs))
    assert newton == pytest.approx(lbfgs, abs=1e-4)


def test_the_search_ends_where_the_gradient_is_zero():
    choices, prior = drawn(rounds=30), flat(3, precision=0.5)
    at = _fit_conditional_logit(choices, prior)

    def loss(coefficients):
        return 0.25 * (coefficients**2).sum() - choices.log_likelihoods(coefficients).sum()

    assert approx_fprime(at, loss, 1e-6) == pytest.approx(0.0, abs=1e-4)


def test_probabilities_of_a_round_sum_to_one():
    choices = drawn()
    p = np.exp(choices.log_probabilities(np.array([30.0, -3.0, 900.0])))
    assert np.add.reduceat(p, choices.starts) == pytest.approx(1.0)


def test_selected_rounds_keep_their_log_likelihoods():
    choices, which = drawn(rounds=20), np.arange(20) % 3 == 0
    part = choices.select(which)
    at = np.array([1.0, 0.5, -0.5])
    assert part.log_likelihoods(at) == pytest.approx(choices.log_likelihoods(at)[which])
