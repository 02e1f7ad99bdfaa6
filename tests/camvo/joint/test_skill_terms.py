"""Skills with a linear term: beside the plain models, a regression on known labels, and known slopes."""

from __future__ import annotations

import numpy as np
import pytest
from made_up_votes import COINS, every_row, made_up_kinds
from scipy.optimize import minimize
from scipy.special import expit, logit

from camvo.joint.models import fit_vote_model
from camvo.joint.skills import _ANCHOR_ROUNDS, _fit_label_terms, _fit_skill_terms, _Lesson, _SkillTerms
from camvo.joint.two_coins import TwoCoins

KINDS = made_up_kinds(3, 4, temper=np.array([1.0, 0.5, 0.8]))
SLOPES = np.array([[2.0, 0.0], [0.0, 2.0], [-2.0, 0.0], [0.0, -2.0], [1.5, 1.5]])


def votes_by_feature(items, *, slopes=SLOPES, seed=0):
    """Votes on two labels of arms that are right with log-odds 1 + w·x, the truth and x."""
    rng = np.random.default_rng(seed)
    features, truth = rng.normal(size=(items, 2)), rng.integers(2, size=items)
    right = rng.random((items, len(slopes))) < expit(1.0 + features @ slopes.T)
    return np.where(right, truth[:, None], 1 - truth[:, None]), truth, features


def fitted(items, **draw):
    votes, truth, features = votes_by_feature(items, **draw)
    plain = fit_vote_model(votes, np.ones(items), 2, np.ones(votes.shape[1]))
    return _fit_skill_terms(plain, votes, features), votes, truth, features


BIASED = np.array([[0.92, 0.9], [0.89, 0.87], [0.97, 0.46], [0.98, 0.42]])
"""Two of four arms call half of the second label's items the first."""


def votes_on_told_labels(items, *, lean=1.5, seed=0):
    """Votes of arms with biases on two labels of which the first feature tells something, the truth and x."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(items, 2))
    truth = (rng.random(items) < expit(lean * features[:, 0])).astype(np.int64)
    right = rng.random((items, len(BIASED))) < BIASED[:, truth].T
    return np.where(right, truth[:, None], 1 - truth[:, None]), truth, features


@pytest.mark.parametrize(("model", "labels"), [(COINS, 2), (KINDS, 4)])
def test_rows_with_accuracies_of_their_own_are_explained_as_each_alone(model, labels):
    rows = every_row(3, labels)
    accuracy = np.random.default_rng(1).uniform(0.2, 0.95, (len(rows), *model.accuracy.shape))
    explained = model.explained(rows, accuracy)
    for number, row in enumerate(rows):
        alone = type(model)(
            **{name: getattr(model, name) for name in model.__dataclass_fields__ if name != "accuracy"}
            | {"accuracy": accuracy[number]}
        )
        right, evidence = alone.beliefs(row[None])
        assert explained.evidence[number] == pytest.approx(evidence[0])
        for arm, vote in enumerate(row.tolist()):
            expected = right[0, vote] if vote >= 0 else 0.0
            assert explained.right[number, arm].sum() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("model", "labels"), [(COINS, 2), (KINDS, 4)])
def test_the_probabilities_of_the_kinds_sum_to_one(model, labels):
    rows = every_row(3, labels)
    accuracy = np.broadcast_to(model.accuracy, (len(rows), *model.accuracy.shape))
    np.testing.assert_allclose(model.explained(rows, accuracy).mass.sum(axis=1), 1.0)


def test_newton_steps_on_known_kinds_reach_the_optimum_of_another_optimiser():
    rng = np.random.default_rng(2)
    features, kind = rng.normal(size=(200, 3)), rng.integers(2, size=200)
    seen = np.eye(2)[kind]
    right = seen * (rng.random(200) < expit(0.5 + features @ [1.0, -1.0, 0.0]))[:, None]
    anchor, variance = logit(np.array([0.8, 0.6])), 0.7
    absent = np.zeros_like(seen)  # of a second arm, which has no votes
    both = np.array([right, absent])
    lesson = _Lesson(features, np.array([seen, absent]), both, np.array([anchor, anchor]), variance)

    def loss(values):
        odds = values[:2] + (features @ values[2:])[:, None]
        likelihood = (right * odds - seen * np.logaddexp(0.0, odds)).sum()
        prior = _ANCHOR_ROUNDS * (expit(anchor) * values[:2] - np.logaddexp(0.0, values[:2])).sum()
        return -likelihood - prior + (values[2:] ** 2).sum() / (2.0 * variance)

    base, slopes = np.zeros((2, 2)), np.zeros((2, 3))
    for _ in range(30):
        step, _ = lesson.newton(base, slopes)
        base, slopes = base + step[:, :2], slopes + step[:, 2:]
    best = minimize(loss, np.zeros(5), method="BFGS", options={"gtol": 1e-8}).x
    np.testing.assert_allclose([*base[0], *slopes[0]], best, atol=1e-4)
    np.testing.assert_allclose([*base[1], *slopes[1]], [*anchor, 0.0, 0.0, 0.0], atol=1e-4)


def test_slopes_are_recovered_from_votes_alone():
    terms, *_ = fitted(4000)
    np.testing.assert_allclose(terms.slopes, SLOPES, atol=0.35)


def test_votes_say_more_with_the_slopes_than_without():
    terms, votes, truth, features = fitted(800)
    alone, _ = terms.model.beliefs(votes)
    plain = fit_vote_model(votes, np.ones(800), 2, np.ones(5)).beliefs(votes)[0]
    with_features = terms.model.explained(votes, terms.accuracy(features)).mass
    share = [(belief.argmax(axis=1) == truth).mean() for belief in (alone, plain, with_features)]
    assert share[2] > max(share[:2]) + 0.1


def test_without_slopes_in_the_data_the_fitted_ones_are_small():
    terms, *_ = fitted(1500, slopes=np.zeros((5, 2)))
    assert np.abs(terms.slopes).max() < 0.2


def test_what_features_tell_of_the_label_is_recovered_from_votes_alone():
    votes, _, features = votes_on_told_labels(4000)
    plain = fit_vote_model(votes, np.ones(4000), 2, np.ones(4))
    terms = _fit_skill_terms(plain, votes, features)
    np.testing.assert_allclose(terms.lean, [1.5, 0.0], atol=0.2)


def test_features_that_tell_the_label_do_not_pass_as_skill():
    votes, _, features = votes_on_told_labels(4000)
    plain = fit_vote_model(votes, np.ones(4000), 2, np.ones(4))
    assert np.abs(_fit_skill_terms(plain, votes, features).slopes).max() < 0.35


def test_features_that_tell_the_label_make_more_labels_right():
    votes, truth, features = votes_on_told_labels(2000)
    plain = fit_vote_model(votes, np.ones(2000), 2, np.ones(4))
    terms = _fit_label_terms(plain, votes, features)
    beliefs = terms.explained(votes, features).mass, plain.beliefs(votes)[0]
    told, alone = ((belief.argmax(axis=1) == truth).mean() for belief in beliefs)
    assert told > alone + 0.01


def test_a_fit_of_labels_alone_leaves_the_skills_as_they_are():
    votes, _, features = votes_on_told_labels(500)
    plain = fit_vote_model(votes, np.ones(500), 2, np.ones(4))
    terms = _fit_label_terms(plain, votes, features)
    assert not terms.slopes.any()
    np.testing.assert_allclose(terms.accuracy(features[:1])[0], plain.accuracy)


def test_the_features_of_a_task_count_by_half_as_they_are_no_independent_witness():
    terms = _SkillTerms(COINS, logit(COINS.accuracy), np.zeros((3, 1)), np.array([2.0]))
    first, second = terms.at(np.array([1.0])).share
    expected = COINS.share[1] / COINS.share[0] * np.exp(1.0)
    assert second / first == pytest.approx(expected)


def test_one_task_has_the_accuracies_of_its_features():
    terms = _SkillTerms(COINS, np.zeros((3, 2)), np.array([[1.0], [0.0], [-1.0]]), np.zeros(1))
    model = terms.at(np.array([2.0]))
    assert isinstance(model, TwoCoins)
    np.testing.assert_allclose(model.accuracy[:, 0], expit([2.0, 0.0, -2.0]))
