"""The model of votes for more than two labels, beside an enumeration of (z, w, d)."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from made_up_votes import draw_votes, every_row, made_up_kinds, rows_of

from camvo.joint import models
from camvo.joint.models import fit_vote_model
from camvo.joint.votes import renumber


def enumerated(model, row):
    """P(z | votes) for every label, and the log-probability of the votes, by all values of z, w and d."""
    m, mass = model.labels, np.zeros(model.labels)
    for z, w, d in product(range(m), range(m), range(len(model.share))):
        if w == z:
            continue
        probability = model.share[d] / (m * (m - 1))
        for arm, vote in enumerate(row):
            if vote < 0:
                continue
            right, shared = model.accuracy[arm, d], model.shared[d]
            stray = (1.0 - shared) / (m - 1)
            chance = right if vote == z else (1.0 - right) * (stray + shared * (vote == w))
            probability *= chance ** model.temper[arm]
        mass[z] += probability
    return mass / mass.sum(), np.log(mass.sum())


@pytest.mark.parametrize(("arms", "labels"), [(3, 3), (3, 5), (4, 4), (1, 3)])
@pytest.mark.parametrize("tempered", [False, True])
def test_beliefs_are_those_of_the_enumeration(arms, labels, tempered):
    temper = np.linspace(0.4, 1.0, arms) if tempered else None
    model, rows = made_up_kinds(arms, labels, temper=temper), every_row(arms, labels)
    right, evidence = model.beliefs(rows)
    for row, found, log_probability in zip(rows.tolist(), right, evidence, strict=True):
        probabilities, expected = enumerated(model, row)
        named = max(*row, -1) + 1
        np.testing.assert_allclose(found[:named], probabilities[:named], atol=1e-12)
        assert not found[named:].any()
        assert log_probability == pytest.approx(expected)


def test_the_probabilities_of_all_votes_sum_to_one():
    model = made_up_kinds(3, 4)
    votes = np.array([*product(range(4), repeat=3)])
    _, evidence = model.beliefs(renumber(votes))
    assert np.exp(evidence).sum() == pytest.approx(1.0)


def test_with_one_label_every_vote_is_right():
    model = fit_vote_model(np.zeros((1, 2), dtype=np.int64), np.array([5.0]), 1, np.ones(2))
    right, evidence = model.beliefs(np.array([[0, 0], [0, -1], [-2, -2]]))
    assert right[:, 0].tolist() == [1.0, 1.0, 0.0]
    assert np.isfinite(evidence).all()


def penalised(model, rows):
    """The log-posterior of the parameters: the priors are those pseudo-rounds that the updates add."""
    _, evidence = model.beliefs(rows.rows)
    accuracy, shared = model.accuracy, model.shared
    prior = (7.0 * np.log(accuracy) + 3.0 * np.log1p(-accuracy)).sum() + 3.0 * np.log(model.share).sum()
    return rows.counts @ evidence + prior + (2.0 * np.log(shared) + 3.0 * np.log1p(-shared)).sum()


@pytest.mark.parametrize("labels", [3, 6])
def test_no_step_of_em_lowers_the_penalised_likelihood(labels, monkeypatch):
    votes, _ = draw_votes(np.array([0.8, 0.7, 0.6, 0.5]), labels=labels, items=300, decoy=0.5)
    rows, values = rows_of(votes, labels), []
    for steps in range(1, 15):
        monkeypatch.setattr(models, "_STEPS", steps)
        values.append(penalised(fit_vote_model(rows.rows, rows.counts, labels, np.ones(4)), rows))
    assert np.diff(values).min() > -1e-9
    assert values[-1] > values[0] + 1.0


def test_the_parameters_of_made_up_votes_are_recovered():
    rng, truth = np.random.default_rng(3), np.array([[0.97, 0.8], [0.95, 0.5], [0.96, 0.4], [0.9, 0.6]])
    hard = rng.random(6000) < 0.4
    votes = np.where(
        hard[:, None],
        draw_votes(truth[:, 1], labels=5, items=6000, decoy=0.5, seed=4)[0],
        draw_votes(truth[:, 0], labels=5, items=6000, decoy=0.5, seed=5)[0],
    )
    rows = rows_of(votes, 5)
    model = fit_vote_model(rows.rows, rows.counts, 5, np.ones(4))
    of_all = model.accuracy @ model.share
    np.testing.assert_allclose(of_all, truth @ [0.6, 0.4], atol=0.04)
    assert (model.accuracy[:, 0] > model.accuracy[:, 1]).all()


def test_a_weight_is_a_number_of_rounds():
    rows = rows_of(draw_votes(np.array([0.8, 0.7, 0.6]), labels=3, items=60)[0], 3)
    doubled = fit_vote_model(rows.rows, 2.0 * rows.counts, 3, np.ones(3))
    twice = fit_vote_model(np.tile(rows.rows, (2, 1)), np.tile(rows.counts, 2), 3, np.ones(3))
    np.testing.assert_allclose(doubled.accuracy, twice.accuracy)


def test_without_rounds_all_arms_are_alike():
    model = fit_vote_model(np.zeros((0, 3), dtype=np.int64), np.zeros(0), 4, np.ones(3))
    np.testing.assert_allclose(model.accuracy, 0.7)
    right, _ = model.beliefs(np.array([[0, 0, 1]]))
    assert right[0, 0] > right[0, 1]
