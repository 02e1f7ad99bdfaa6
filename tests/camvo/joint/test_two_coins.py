"""The model of votes for two labels, beside an enumeration of z."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from made_up_votes import draw_votes, every_row, rows_of

from camvo.joint.models import fit_vote_model
from camvo.joint.two_coins import TwoCoins

BIASED = np.array([[0.95, 0.6], [0.6, 0.9], [0.85, 0.85], [0.8, 0.7]])


def enumerated(model, row):
    mass = model.share.copy()
    for z, (arm, vote) in product(range(2), enumerate(row)):
        if vote >= 0:
            right = model.accuracy[arm, z]
            mass[z] *= (right if vote == z else 1.0 - right) ** model.temper[arm]
    return mass / mass.sum(), np.log(mass.sum())


@pytest.mark.parametrize("arms", [1, 2, 4])
def test_beliefs_are_those_of_the_enumeration(arms):
    model = TwoCoins(BIASED[:arms], np.array([0.3, 0.7]), np.linspace(0.5, 1.0, arms))
    rows = every_row(arms, 2)
    right, evidence = model.beliefs(rows)
    for row, found, log_probability in zip(rows.tolist(), right, evidence, strict=True):
        probabilities, expected = enumerated(model, row)
        np.testing.assert_allclose(found, probabilities, atol=1e-12)
        assert log_probability == pytest.approx(expected)


def test_the_parameters_of_made_up_votes_are_recovered():
    votes, truth = draw_votes(BIASED, labels=2, items=8000, seed=1)
    kept = (truth == 1) | (np.arange(8000) % 2 == 0)
    rows = rows_of(votes[kept], 2)
    model = fit_vote_model(rows.rows, rows.counts, 2, np.ones(4))
    np.testing.assert_allclose(model.accuracy, BIASED, atol=0.05)
    np.testing.assert_allclose(model.share, [1 / 3, 2 / 3], atol=0.03)
    assert model.skill.argmax() == (BIASED @ [1 / 3, 2 / 3]).argmax()


def test_swapping_the_labels_swaps_the_coins():
    rows = rows_of(draw_votes(BIASED, labels=2, items=400)[0], 2)
    model = fit_vote_model(rows.rows, rows.counts, 2, np.ones(4))
    swapped = fit_vote_model(1 - rows.rows, rows.counts, 2, np.ones(4))
    np.testing.assert_allclose(swapped.accuracy, model.accuracy[:, ::-1])
    np.testing.assert_allclose(swapped.share, model.share[::-1])


def test_the_order_of_the_arms_changes_nothing():
    rows = rows_of(draw_votes(BIASED, labels=2, items=400)[0], 2)
    model = fit_vote_model(rows.rows, rows.counts, 2, np.ones(4))
    backwards = fit_vote_model(rows.rows[:, ::-1], rows.counts, 2, np.ones(4))
    np.testing.assert_allclose(backwards.accuracy, model.accuracy[::-1])


def test_arms_without_votes_keep_the_prior():
    rows = np.array([[0, -1], [1, -2]])
    model = fit_vote_model(rows, np.array([40.0, 40.0]), 2, np.ones(2))
    np.testing.assert_allclose(model.accuracy[1], 0.75)


@pytest.mark.parametrize(("labels", "kind"), [(1, "Kinds"), (2, "TwoCoins"), (3, "Kinds"), (9, "Kinds")])
def test_two_labels_have_two_coins_and_others_kinds_of_items(labels, kind):
    model = fit_vote_model(np.zeros((1, 2), dtype=np.int64), np.ones(1), labels, np.ones(2))
    assert type(model).__name__ == kind


def drawn_by(readings, accuracies, seed, items):
    """Votes on two labels by arms that each follow one of some readings, (R, n), as (reading, accuracy)."""
    rng = np.random.default_rng(seed)
    right = np.array([rng.random(items) < accuracy for _, accuracy in accuracies]).T
    followed = np.array([readings[reading] for reading, _ in accuracies]).T
    return np.where(right, followed, 1 - followed)


@pytest.mark.parametrize("seed", range(4))
def test_two_good_arms_outweigh_many_weak_ones_that_err_together(seed):
    rng = np.random.default_rng([seed, 1])
    truth, hard = rng.integers(2, size=600), rng.integers(2, size=600)
    votes = drawn_by((truth, truth ^ hard), [(0, 0.94)] * 2 + [(1, 0.72)] * 6, seed, 600)
    rows = rows_of(votes, 2)
    model = fit_vote_model(rows.rows, rows.counts, 2, np.ones(8))
    assert model.accuracy[:2].min() > 0.85
    assert model.accuracy[2:].max() < 0.7


@pytest.mark.parametrize("seed", range(4))
def test_copies_of_a_weak_arm_do_not_outweigh_good_arms_that_agree(seed):
    rng = np.random.default_rng([seed, 1])
    truth = rng.integers(2, size=600)
    voice = np.where(rng.random(600) < 0.6, truth, 1 - truth)
    votes = drawn_by((truth, voice), [(0, 0.85)] * 4 + [(1, 0.98)] * 2, seed, 600)
    rows = rows_of(votes, 2)
    model = fit_vote_model(rows.rows, rows.counts, 2, np.ones(6))
    assert model.accuracy[:4].min() > 0.75
    assert model.accuracy[4:].max() < 0.75
