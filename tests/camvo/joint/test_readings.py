"""Readings of the votes that are nearly as likely as the model's."""

from __future__ import annotations

import numpy as np
import pytest
from made_up_votes import draw_votes, rows_of
from scipy.special import ndtri

from camvo.joint.joint_fit import JointFit
from camvo.joint.votes_fit import VotesFit

SKILLS = np.array([0.85, 0.82, 0.8, 0.78, 0.75, 0.7])


def two_readings(labels, seed, items=600, first=(0.86, 0.83, 0.8), second=(0.86, 0.83, 0.8)):
    """Votes of arms that follow the truth, and of arms that follow another reading of half of the items."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(labels, size=items)
    reading = np.where(rng.random(items) < 0.5, truth, rng.integers(labels, size=items))
    follows = np.array([truth] * len(first) + [reading] * len(second)).T
    right = rng.random(follows.shape) < (*first, *second)
    wrong = (follows + rng.integers(1, labels, size=follows.shape)) % labels
    return rows_of(np.where(right, follows, wrong), labels)


@pytest.mark.parametrize("labels", [2, 4])
@pytest.mark.parametrize("seed", range(4))
def test_as_many_arms_with_another_reading_leave_doubt(labels, seed):
    votes = two_readings(labels, seed)
    assert set(VotesFit.of_rows(votes, labels).doubt.arms) in ({0, 1, 2}, {3, 4, 5})


@pytest.mark.parametrize("labels", [2, 4])
def test_two_of_seven_arms_with_another_reading_leave_none(labels):
    votes = two_readings(labels, 0, first=(0.9, 0.88, 0.86, 0.84, 0.82), second=(0.8, 0.78))
    assert VotesFit.of_rows(votes, labels).doubt is None


@pytest.mark.parametrize("labels", [2, 3, 8])
@pytest.mark.parametrize("seed", range(4))
def test_arms_that_err_independently_leave_none(labels, seed):
    votes = rows_of(draw_votes(SKILLS, labels=labels, items=300, seed=seed)[0], labels)
    assert VotesFit.of_rows(votes, labels).doubt is None


def votes_on_hard_items(accuracies, seed, items=1500):
    """Votes on two labels of arms that err together where items are hard, shape (n, K), and the truth."""
    rng = np.random.default_rng(seed)
    truth, ease = rng.integers(2, size=(items, 1)), rng.normal(size=(items, 1))
    noise = rng.normal(size=(items, len(accuracies)))
    level = ndtri(accuracies) + np.sqrt(0.3) * ease + np.sqrt(0.7) * noise
    return np.where(level > 0.0, truth, 1 - truth), truth[:, 0]


def test_few_rounds_do_not_prefer_weak_arms_to_the_majority():
    worse = 0
    for seed in range(8):
        votes, truth = votes_on_hard_items([0.96] * 3 + [0.5] * 5, seed)
        fit = JointFit.label_free(
            VotesFit.of_rows(rows_of(votes[:36], 2), 2),
            ("no", "yes"),
            tuple("abcdefgh"),
            dict.fromkeys("abcdefgh", 1.0),
        )
        said, lead = fit.model.beliefs(votes)[0].argmax(axis=1), votes.sum(axis=1) - 4.0
        majority = np.where(lead == 0.0, 0.5, (lead > 0.0) == truth)
        worse += (said == truth).mean() < majority.mean() - 0.05
    assert worse == 0


def test_good_arms_among_random_ones_that_agree_on_hard_items_are_in_doubt_rather_than_a_family():
    votes, _ = votes_on_hard_items([0.96] * 3 + [0.5] * 5, seed=2)
    found = VotesFit.of_rows(rows_of(votes[:36], 2), 2)
    assert found.possible[0, 1] > 0.5
    assert not found.excess.any()
    assert found.doubt.arms == (0, 1, 2)


def test_fewer_than_thirty_rounds_leave_none():
    votes = two_readings(2, 0, items=29)
    assert VotesFit.of_rows(votes, 2).doubt is None


def test_in_doubt_all_arms_count_alike():
    votes = two_readings(2, 0)
    fit = JointFit.label_free(
        VotesFit.of_rows(votes, 2), ("no", "yes"), tuple("abcdef"), dict.fromkeys("abcdef", 1.0)
    )
    assert fit.describe()["rival_reading"] in (["a", "b", "c"], ["d", "e", "f"])
    assert fit.describe()["everyone"] == 600
    assert np.ptp(fit.model.accuracy) == 0.0
