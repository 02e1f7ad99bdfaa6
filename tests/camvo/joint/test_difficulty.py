"""Items that are hard for all arms, in the model of votes for two labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_up_votes import every_row, rows_of
from scipy.special import ndtri

from camvo.joint.models import fit_vote_model
from camvo.joint.two_coins import TwoCoins, with_difficulty
from camvo.joint.votes_fit import VotesFit

SKILLS = np.linspace(0.86, 0.66, 9)
UNEQUAL = TwoCoins(
    np.array([[0.9, 0.6], [0.7, 0.8], [0.75, 0.75]]), np.array([0.4, 0.6]), np.ones(3), difficulty=0.4
)


def drawn(difficulty, items, seed=0, skills=SKILLS):
    """Votes, (n, K), whose errors share an item's difficulty, and the truth, (n,)."""
    rng = np.random.default_rng(seed)
    truth, ease = rng.integers(2, size=items), rng.normal(size=(items, 1))
    noise = rng.normal(size=(items, len(skills)))
    right = np.sqrt(difficulty) * ease + np.sqrt(1.0 - difficulty) * noise > -ndtri(skills)
    return np.where(right, truth[:, None], 1 - truth[:, None]), truth


def votes_of_all():
    """Every row in which three arms have voted."""
    rows = every_row(3, 2)
    return rows[(rows >= 0).all(axis=1)]


def fits(votes):
    """The fits without and with difficulty."""
    rows = rows_of(votes, 2)
    plain = fit_vote_model(rows.rows, rows.counts, 2, np.ones(votes.shape[1]))
    return plain, with_difficulty(plain, rows.rows, rows.counts)


def test_the_probabilities_of_all_votes_sum_to_1():
    assert np.exp(UNEQUAL.beliefs(votes_of_all())[1]).sum() == pytest.approx(1.0)


def test_each_arm_is_right_as_often_as_its_accuracies_say():
    rows = votes_of_all()
    right, evidence = UNEQUAL.beliefs(rows)
    joint = right * np.exp(evidence)[:, None]
    for label in range(2):
        hit = joint[:, label] @ (rows == label) / UNEQUAL.share[label]
        np.testing.assert_allclose(hit, UNEQUAL.accuracy[:, label], atol=2e-3)


def test_accuracies_of_each_row_say_what_they_say_of_all():
    rows = every_row(3, 2)
    by_row = replace(UNEQUAL, accuracy=np.tile(UNEQUAL.accuracy, (len(rows), 1, 1)))
    for found, expected in zip(by_row.beliefs(rows), UNEQUAL.beliefs(rows), strict=True):
        np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("difficulty", [0.15, 0.3, 0.45])
def test_the_difficulty_of_made_up_votes_is_found(difficulty):
    _, model = fits(drawn(difficulty, 2000)[0])
    assert model.difficulty == pytest.approx(difficulty, abs=0.07)


def test_independent_errors_have_no_difficulty():
    assert fits(drawn(0.0, 2000)[0])[1].difficulty < 0.03


def test_labels_are_right_as_often_as_the_beliefs_say():
    votes, truth = drawn(0.3, 4000)
    plain, model = fits(votes)
    overconfident, honest = (
        (belief.max(axis=1) - (belief.argmax(axis=1) == truth)).mean()
        for belief in (
            each.beliefs(votes[:, :5])[0] for each in (plain.among(range(5)), model.among(range(5)))
        )
    )
    assert overconfident > 0.05
    assert abs(honest) < 0.025


def test_the_label_of_many_votes_is_right_more_often():
    votes, truth = drawn(0.3, 4000, skills=np.linspace(0.86, 0.66, 13))
    plain, with_hard = ((each.beliefs(votes)[0].argmax(axis=1) == truth).mean() for each in fits(votes))
    assert with_hard > plain + 0.01


def test_accuracies_are_nearer_to_the_truth_where_items_are_hard():
    skills = np.array([0.9, 0.86, 0.74, 0.68])
    errors = [abs(model.accuracy - skills[:, None]).mean() for model in fits(drawn(0.5, 5000, 0, skills)[0])]
    assert errors[1] < 0.6 * errors[0]


@pytest.mark.parametrize("seed", range(3))
def test_a_step_makes_the_votes_more_likely(seed):
    skills = np.array([0.9, 0.86, 0.74, 0.68])
    rows = rows_of(drawn(0.5, 5000, seed, skills)[0], 2)
    model = TwoCoins(np.full((4, 2), 0.75), np.full(2, 0.5), np.ones(4), difficulty=0.5)
    for _ in range(5):
        better = model.likelier(rows.rows, rows.counts)
        assert rows.counts @ (better.beliefs(rows.rows)[1] - model.beliefs(rows.rows)[1]) > 0.0
        model = better


def test_the_labels_may_be_swapped():
    votes, _ = drawn(0.3, 400)
    model, swapped = fits(votes)[1], fits(1 - votes)[1]
    np.testing.assert_allclose(swapped.accuracy, model.accuracy[:, ::-1])
    assert swapped.difficulty == pytest.approx(model.difficulty)


def test_fewer_than_a_hundred_rounds_do_not_tell():
    assert fits(drawn(0.5, 99)[0])[1].difficulty == 0.0


@pytest.mark.parametrize("seed", range(3))
def test_another_reading_of_some_arms_is_not_taken_for_difficulty(seed):
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=600)
    reading = np.where(rng.random(600) < 0.5, truth, rng.integers(2, size=600))
    follows = np.array([truth] * 3 + [reading] * 3 + [truth]).T
    skills = np.array([0.86, 0.83, 0.8] * 2 + [0.7])
    votes = np.where(rng.random(follows.shape) < skills, follows, 1 - follows)
    plain, model = fits(votes)
    otherwise = plain.beliefs(votes)[0].argmax(axis=1) != model.beliefs(votes)[0].argmax(axis=1)
    assert otherwise.mean() <= 0.1


def test_the_fit_of_a_question_knows_the_difficulty():
    votes, _ = drawn(0.3, 1000)
    assert VotesFit.of_rows(rows_of(votes, 2), 2).model.difficulty > 0.2
