"""Skills by context: used where held-out votes are predicted better, and then in plans."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest
from made_up_votes import COINS, made_up_kinds
from scipy.special import expit

from camvo.joint.beliefs import believe
from camvo.joint.joint_fit import JointFit
from camvo.joint.lattice import vote_lattice
from camvo.joint.plans import plan_by_worth
from camvo.joint.skills import _Components
from camvo.state.contribution import LatestRounds
from camvo.state.exploration import LatestContexts, PatternCounts, VotePattern, named_labels

ARMS = ("a", "b", "c", "d", "e")
LABELS = ("no", "perhaps", "yes")
PRICES = dict.fromkeys(ARMS, 0.01)


@cache
def fit(slope, *, items=300, labels=LABELS, arms=ARMS, seed=0, known=True):
    """A fit to arms of which every second one is better where the context's first coordinate is high."""
    rng = np.random.default_rng(seed)
    contexts, truth = rng.normal(size=(items, 4)), rng.integers(len(labels), size=items)
    sign = np.where(np.arange(len(arms)) % 2 == 0, 1.0, -1.0)
    right = rng.random((items, len(arms))) < expit(1.0 + slope * contexts[:, :1] * sign)
    wrong = (truth[:, None] + rng.integers(1, len(labels), size=right.shape)) % len(labels)
    return fit_to(np.where(right, truth[:, None], wrong), contexts * float(known), labels, arms)


def fit_to(votes, contexts, labels, arms):
    """A fit to rounds that asked all arms, shape (n, K)."""
    patterns = tuple(
        VotePattern.of(
            arms,
            dict(zip(arms, [labels[v] for v in row], strict=True)),
            everyone=True,
            labels=named_labels(labels),
        )
        for row in votes.tolist()
    )
    counts = dict.fromkeys(patterns, 0)
    for pattern in patterns:
        counts[pattern] += 1
    latest = LatestContexts(patterns, contexts.astype(np.float32))
    prices = dict.fromkeys(arms, 0.01)
    seen = PatternCounts(counts, len(votes))
    return JointFit.fit(seen, LatestRounds(), labels, prices, contexts=latest, explored=seen)


@pytest.mark.parametrize("labels", [("no", "yes"), LABELS])
def test_skills_that_hang_on_the_context_are_found(labels):
    assert fit(2.0, labels=labels).contexts is not None


def test_with_such_skills_the_regret_is_not_known_since_resamples_know_no_context():
    assert fit(2.0, labels=LABELS).regret is None


@pytest.mark.parametrize("labels", [("no", "yes"), LABELS])
def test_skills_that_do_not_are_rarely_found(labels):
    found = [fit(0.0, labels=labels, items=60, seed=seed).contexts is not None for seed in range(5)]
    assert sum(found) <= 1


def told(*, lean, items=400, seed=0):
    """A fit to five arms alike in their skill, with contexts whose first coordinate tells of two labels."""
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(items, 4))
    truth = (rng.random(items) < expit(lean * contexts[:, 0])).astype(np.int64)
    right = rng.random((items, len(ARMS))) < 0.75
    return fit_to(np.where(right, truth[:, None], 1 - truth[:, None]), contexts, ("no", "yes"), ARMS)


def test_a_context_that_tells_the_label_counts_as_that_and_not_as_skill():
    found = told(lean=2.0).contexts
    assert found is not None
    assert not found.skilled


def test_a_context_decides_between_labels_that_are_voted_for_alike():
    fit = told(lean=2.0)
    votes = {"a": "no", "b": "yes"}
    for value, label in ((1.5, "yes"), (-1.5, "no")):
        probabilities = fit.at(np.array([value, 0.0, 0.0, 0.0]), PRICES).probabilities(votes)
        assert max(probabilities, key=lambda name: probabilities[name]) == label


def test_what_a_context_tells_counts_as_far_as_it_moves_the_label():
    fit, votes = told(lean=2.0), {"a": "yes", "b": "yes"}
    shares = []
    for value in (0.0, 1.0, 2.0):
        task = fit.at(np.array([value, 0.01, 0.0, 0.0]), PRICES)
        shares.append(task.updated_by_context(votes, {}, "yes", task.probabilities(votes)["yes"]))
    assert 0.0 <= shares[0] < 0.3
    assert shares[0] < shares[1] < shares[2] < 1.0


def test_a_fit_that_reads_no_context_is_told_nothing_by_it():
    assert told(lean=0.0).updated_by_context({"a": "yes"}, {}, "yes", 0.8) == 0.0


def test_few_rounds_show_no_skills_by_context():
    assert fit(3.0, items=30).contexts is None


def test_a_fit_without_them_is_the_same_for_every_task():
    plain = fit(0.0)
    assert plain.at(np.ones(4), PRICES) is plain


def test_arms_that_are_good_at_the_task_are_asked():
    found = fit(3.0)
    for value, good in ((2.0, "ace"), (-2.0, "bd")):
        task = found.at(np.array([value, 0.0, 0.0, 0.0]), PRICES)
        worth = plan_by_worth(task.beliefs, tuple([0.02] * 5))
        assert task.shortlist[worth.next_arm[task.node({})]] in good


def test_the_label_of_the_arms_that_are_good_at_the_task_wins():
    task = fit(3.0).at(np.array([-2.0, 0.0, 0.0, 0.0]), PRICES)
    votes = {"a": "no", "c": "no", "e": "no", "b": "yes", "d": "yes"}
    probabilities = task.probabilities(votes)
    assert max(probabilities, key=lambda label: probabilities[label]) == "yes"
    assert sum(probabilities.values()) == pytest.approx(1.0)


def test_a_task_with_many_arms_is_planned_with_some_of_them():
    arms = tuple("abcdefghi")
    found = fit(3.0, arms=arms)
    task = found.at(np.array([2.0, 0.0, 0.0, 0.0]), dict.fromkeys(arms, 0.01))
    assert len(task.beliefs.right) <= 5000
    assert set("acegi") & set(found.shortlist) <= set(task.shortlist)


def test_the_description_is_json():
    described = json.loads(json.dumps(fit(3.0).describe()))
    assert described["contexts"]["gain"] > 3.0 * described["contexts"]["error"]


@pytest.mark.parametrize(("model", "labels"), [(COINS, 2), (made_up_kinds(3, 4), 4)])
def test_beliefs_about_a_task_are_those_of_its_model(model, labels):
    lattice = vote_lattice(3, labels)
    beliefs = believe(model, lattice)
    right, evidence = model.beliefs(lattice.rows)
    np.testing.assert_allclose(beliefs.right, right, atol=1e-12)
    for level, votes in zip(lattice.steps, beliefs.votes, strict=True):
        for step, chances in zip(level, votes, strict=True):
            np.testing.assert_allclose(chances.sum(axis=0), 1.0)
            following = np.maximum(step.following, 0)
            expected = step.labels * np.exp(evidence[following] - evidence[step.nodes])
            np.testing.assert_allclose(chances, np.where(step.following >= 0, expected, 0.0), atol=1e-12)


def test_components_are_uncorrelated_with_a_mean_variance_of_one():
    contexts = np.random.default_rng(0).normal(size=(50, 6)) @ np.random.default_rng(1).normal(size=(6, 6))
    components = _Components.of(contexts)
    assert components is not None
    covariance = np.cov(components.features(contexts).T, bias=True)
    np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-9)
    assert np.diag(covariance).mean() == pytest.approx(1.0)


def test_equal_contexts_have_no_components():
    assert _Components.of(np.ones((40, 3))) is None


def of_two_readings(*says, seed=0):
    """A fit to three arms that follow the truth, and three that follow another reading of half of the tasks.

    A context says, with noise, the label of each of the readings ``says``: 0 for the truth, 1 for the other.
    """
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=400)
    readings = np.array([truth, np.where(rng.random(400) < 0.5, truth, rng.integers(2, size=400))])
    follows = readings[[0, 0, 0, 1, 1, 1]].T
    votes = np.where(rng.random(follows.shape) < [0.86, 0.83, 0.8] * 2, follows, 1 - follows)
    contexts = rng.normal(size=(400, 4))
    contexts[:, 0] += 2.0 * (readings[[*says]] - 0.5).sum(axis=0)
    return fit_to(votes, contexts, ("no", "yes"), tuple("abcdef"))


def skills_by_reading(fit):
    """The mean accuracy of the arms that follow each reading."""
    return fit.model.accuracy.mean(axis=1).reshape(2, 3).mean(axis=1)


@pytest.mark.parametrize("seed", range(3))
def test_contexts_that_say_the_labels_of_a_reading_settle_that_it_is_right(seed):
    fit = of_two_readings(0, seed=seed)
    first, second = skills_by_reading(fit)
    assert fit.doubt is None
    assert first > second + 0.1


@pytest.mark.parametrize("seed", range(3))
def test_contexts_that_say_the_labels_of_the_other_reading_never_settle_for_the_first(seed):
    first, second = skills_by_reading(of_two_readings(1, seed=seed))
    assert first < second + 0.05


@pytest.mark.parametrize("seed", range(3))
def test_contexts_that_say_nothing_leave_doubt_which_reading_is_right(seed):
    fit = of_two_readings(seed=seed)
    assert fit.doubt is not None
    assert np.ptp(fit.model.accuracy) == 0.0


@pytest.mark.parametrize("labels", [("no", "yes"), LABELS])
def test_skills_by_context_leave_no_doubt_why_arms_agree(labels):
    assert fit(2.0, labels=labels, known=False).doubt is not None
    assert fit(2.0, labels=labels).doubt is None
