from __future__ import annotations

import numpy as np
import pytest
from correlated_votes import (
    PAPER_MODELS,
    draw_correlated_rounds,
    equal_correlation,
    heterogeneous_correlation,
)
from scipy import stats
from scipy.special import ndtri

from camvo.errors import InvalidParameterError
from camvo.policies.camvo import CaMVo
from camvo.replays.replay import replay

MU = np.array([model.accuracy for model in PAPER_MODELS.values()])


@pytest.fixture(scope="module", params=[False, True], ids=["as printed", "standardised"])
def drawn(request):
    return draw_correlated_rounds(
        heterogeneous_correlation(), rounds=60_000, seed=1, alpha=0.3, standardised=request.param
    )


def test_the_models_are_the_papers():
    assert len(PAPER_MODELS) == 7
    assert sum(model.price for model in PAPER_MODELS.values()) == pytest.approx(9.14)
    matrix = heterogeneous_correlation()
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_array_equal(np.diag(matrix), 1.0)


def test_the_sample_has_the_expected_accuracy(drawn):
    np.testing.assert_allclose(drawn.correct.mean(axis=0), drawn.expected_accuracy, atol=8e-3)


def test_the_sample_has_the_expected_correlation(drawn):
    np.testing.assert_allclose(np.corrcoef(drawn.correct.T), drawn.expected_correlation, atol=2e-2)


def test_whether_a_model_is_right_depends_on_the_context_as_the_probit_of_theta_says(drawn):
    scale = np.sqrt((drawn.theta**2).sum(axis=1) + 0.25) if drawn.standardised else np.ones(7)
    mean = drawn.contexts @ drawn.theta.T / scale
    chance = stats.norm.cdf((mean + ndtri(MU)) / (0.5 / scale))
    for low, high in ((0.0, 0.2), (0.4, 0.6), (0.8, 1.0)):
        band = (chance >= low) & (chance <= high)
        assert drawn.correct[band].mean() == pytest.approx(chance[band].mean(), abs=2e-2)


def test_as_printed_the_accuracies_fall_short_of_mu_and_standardised_they_do_not():
    printed, standard = (
        draw_correlated_rounds(equal_correlation(0.0), rounds=20_000, seed=3, standardised=standardised)
        for standardised in (False, True)
    )
    assert (MU - printed.expected_accuracy).mean() > 0.05
    np.testing.assert_allclose(standard.correct.mean(axis=0), MU, atol=1.5e-2)
    np.testing.assert_array_equal(printed.theta, standard.theta)


def test_without_context_the_correlations_are_the_calibrated_ones():
    drawn_rounds = draw_correlated_rounds(heterogeneous_correlation(), rounds=60_000, seed=2, sigma=1e6)
    np.testing.assert_allclose(
        drawn_rounds.expected_correlation, _correlation_of_fair_bits(drawn_rounds), atol=1e-4
    )
    np.testing.assert_allclose(
        np.corrcoef(drawn_rounds.correct.T), drawn_rounds.expected_correlation, atol=2e-2
    )


def _correlation_of_fair_bits(drawn_rounds):
    """With σ = 10⁶ the thresholds are negligible, so both values are equally likely: 2·asin(ρ)/π."""
    return 2.0 / np.pi * np.arcsin(drawn_rounds.calibration.latent)


def test_the_correlation_changes_neither_contexts_nor_theta():
    low, high = (draw_correlated_rounds(equal_correlation(g), rounds=50, seed=7) for g in (0.1, 0.7))
    np.testing.assert_array_equal(low.contexts, high.contexts)
    np.testing.assert_array_equal(low.theta, high.theta)
    assert np.any(low.correct != high.correct)


def test_the_same_seed_gives_the_same_rounds_and_another_gives_others():
    first, same, other = (
        draw_correlated_rounds(equal_correlation(0.2), rounds=50, seed=s) for s in (7, 7, 8)
    )
    np.testing.assert_array_equal(first.correct, same.correct)
    assert np.any(first.contexts != other.contexts)


@pytest.mark.parametrize(("alpha", "expected"), [(0.0, 0.0), (0.5, 0.5), (1.0, 1.0)])
def test_alpha_is_the_part_of_theta_that_all_models_share(alpha, expected):
    drawn_rounds = draw_correlated_rounds(
        equal_correlation(0.0), rounds=1, seed=0, dimension=20_000, alpha=alpha
    )
    correlations = np.corrcoef(drawn_rounds.theta)[np.triu_indices(7, 1)]
    np.testing.assert_allclose(correlations, expected, atol=3e-2)


@pytest.mark.parametrize("labels", [("yes", "no"), ("a", "b", "c", "d")], ids=["two", "four"])
def test_in_the_votes_table_a_vote_is_the_truth_exactly_where_its_model_is_right(labels):
    drawn_rounds = draw_correlated_rounds(equal_correlation(0.3), rounds=5000, seed=5)
    table = drawn_rounds.draw_votes_table(labels=labels, seed=6)
    np.testing.assert_array_equal(table.votes == table.truth[:, None], drawn_rounds.correct)
    shares = (
        np.bincount(table.votes[~drawn_rounds.correct], minlength=len(labels)) / (~drawn_rounds.correct).sum()
    )
    np.testing.assert_allclose(shares, 1.0 / len(labels), atol=2e-2)
    np.testing.assert_array_equal(table.contexts, drawn_rounds.contexts)
    assert table.full_cost == pytest.approx(9.14)


def test_a_policy_replays_the_rounds():
    table = draw_correlated_rounds(equal_correlation(0.2), rounds=300, seed=9).draw_votes_table(seed=9)
    trace = replay(CaMVo(delta=0.8, k_min=1, n0=1), table)
    assert trace.asked.any(axis=1).all()
    assert (trace.labels == table.truth).mean() > 0.5


@pytest.mark.parametrize("parameters", [{"alpha": 1.1}, {"alpha": -0.1}, {"sigma": 0.0}], ids=str)
def test_parameters_out_of_range_are_refused(parameters):
    with pytest.raises(InvalidParameterError):
        draw_correlated_rounds(equal_correlation(0.0), rounds=1, seed=0, **parameters)
