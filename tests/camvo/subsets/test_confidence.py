from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lemma_1 import confidence_by_lemma_1
from scipy import stats

from camvo.subsets.confidence import (
    BetaConfidence,
    confidence_by_beta_sums,
    confidences_by_beta_sums,
)
from camvo.votes.labels import weighted_vote

probabilities = st.floats(0.0, 1.0)
arms = st.lists(st.tuples(probabilities, st.floats(0.0, 5.0)), min_size=1, max_size=7)


def confidence_by_beta(lower, weights):
    """δ_A of all arms."""
    return BetaConfidence(lower, weights).confidence_of([*range(len(lower))])


def lemma_1(lower, weights):
    """The formula as it is printed: a sum over all sets S whose weight is more than half."""
    everyone, total = range(len(lower)), 0.0
    for size in range(len(lower) + 1):
        for right in combinations(everyone, size):
            wrong = [arm for arm in everyone if arm not in right]
            if sum(weights[arm] for arm in right) - sum(weights[arm] for arm in wrong) > 1e-12:
                total += np.prod([lower[arm] for arm in right]) * np.prod([1 - lower[arm] for arm in wrong])
    return total


@given(arms)
@settings(deadline=None)
def test_the_exact_confidence_is_lemma_1(pairs):
    lower, weights = np.array(pairs).T
    assert confidence_by_lemma_1(lower, weights) == pytest.approx(lemma_1(lower, weights), abs=1e-12)


@given(st.lists(probabilities, min_size=1, max_size=12))
@settings(deadline=None, max_examples=50)
def test_without_weights_the_exact_confidence_is_the_tail_of_a_poisson_binomial(lower):
    expected = stats.poisson_binom.sf(len(lower) // 2, lower)
    assert confidence_by_lemma_1(np.array(lower), np.ones(len(lower))) == pytest.approx(expected, abs=1e-10)


def test_a_tie_is_not_a_majority():
    assert confidence_by_lemma_1(np.array([0.9, 0.8]), np.ones(2)) == pytest.approx(0.72, abs=1e-15)


def test_a_lead_below_rounding_error_is_a_tie():
    weights = np.array([0.1, 0.2, 0.3])
    assert 0.1 + 0.2 != 0.3
    assert confidence_by_lemma_1(np.array([0.0, 0.0, 1.0]), weights) == 0.0
    assert confidence_by_lemma_1(np.array([1.0, 1.0, 0.0]), weights) == 0.0


def test_more_arms_can_mean_less_confidence():
    more = [
        confidence_by_lemma_1(np.array(lower), np.ones(len(lower)))
        for lower in ([0.9], [0.9, 0.9], [0.9, 0.55, 0.55])
    ]
    assert more == pytest.approx([0.9, 0.81, 0.748], abs=5e-4)


@given(arms)
@settings(deadline=None)
def test_the_approximation_is_scipys_beta_tail(pairs):
    lower, weights = np.array(pairs).T
    right, wrong = weights @ lower, weights @ (1.0 - lower)
    if min(right, wrong) < 1e-9:
        return
    assert confidence_by_beta(lower, weights) == pytest.approx(
        stats.beta.sf(0.5, right, wrong), rel=1e-6, abs=1e-9
    )


@given(arms)
@settings(deadline=None)
def test_both_forms_are_probabilities(pairs):
    lower, weights = np.array(pairs).T
    assert 0.0 <= confidence_by_lemma_1(lower, weights) <= 1.0
    assert 0.0 <= confidence_by_beta(lower, weights) <= 1.0


@pytest.mark.parametrize("form", [confidence_by_lemma_1, confidence_by_beta])
@pytest.mark.parametrize(
    ("lower", "weights", "expected"),
    [
        ([0.9, 0.8], [0.0, 0.0], 0.0),
        ([1.0, 1.0], [0.3, 0.4], 1.0),
        ([0.0, 0.0], [0.3, 0.4], 0.0),
        ([], [], 0.0),
    ],
    ids=["no weight", "always right", "always wrong", "no arm"],
)
def test_the_limits_of_both_forms(form, lower, weights, expected):
    assert form(np.array(lower), np.array(weights)) == expected


@pytest.mark.parametrize("form", [confidence_by_lemma_1, confidence_by_beta])
def test_an_arm_without_weight_changes_nothing(form):
    with_it = form(np.array([0.9, 0.2, 0.7]), np.array([1.0, 0.0, 0.5]))
    assert with_it == form(np.array([0.9, 0.7]), np.array([1.0, 0.5]))


def test_a_negative_sum_by_rounding_is_read_as_zero():
    assert confidences_by_beta_sums(np.array([-1e-17, 0.5]), np.array([0.5, -1e-17])).tolist() == [0.0, 1.0]
    assert (confidence_by_beta_sums(-1e-17, 0.5), confidence_by_beta_sums(0.5, -1e-17)) == (0.0, 1.0)


@given(
    st.lists(st.tuples(probabilities, st.floats(0.05, 2.0)), min_size=1, max_size=4),
    st.integers(0, 2**32 - 1),
    st.integers(3, 4),
)
@settings(deadline=None, max_examples=40)
def test_with_more_labels_the_vote_is_right_at_least_as_often_as_lemma_1_says(pairs, seed, labels):
    """Every outcome of K votes over M labels is enumerated; the wrong votes fall as they like."""
    lower, weights = np.array(pairs).T
    names = [f"{position}" for position in range(len(lower))]
    classes = [f"label {position}" for position in range(labels)]
    wrong = np.random.default_rng(seed).dirichlet(np.full(labels - 1, 0.5), size=len(lower))
    weight = dict(zip(names, weights, strict=True))
    right = 0.0
    for votes in product(range(labels), repeat=len(lower)):
        chance = 1.0
        for arm, vote in enumerate(votes):
            chance *= lower[arm] if vote == 0 else (1.0 - lower[arm]) * wrong[arm, vote - 1]
        cast = {name: classes[vote] for name, vote in zip(names, votes, strict=True)}
        right += chance * (
            weighted_vote(cast, weight, classes[::-1], dict.fromkeys(names, 0.0)) == classes[0]
        )
    assert right >= confidence_by_lemma_1(lower, weights) - 1e-9


@given(
    st.lists(st.tuples(probabilities, st.floats(0.05, 2.0)), min_size=1, max_size=6),
    st.integers(2, 4),
)
@settings(deadline=None, max_examples=40)
def test_where_the_wrong_arms_agree_and_ties_are_lost_lemma_1_is_the_vote_whatever_the_labels(pairs, labels):
    """The bound is attained: all who err name the first label of the config, which also wins the ties."""
    lower, weights = np.array(pairs).T
    names = [f"{position}" for position in range(len(lower))]
    classes = ["tempting", *(f"label {number}" for number in range(2, labels)), "right"]
    weight = dict(zip(names, weights, strict=True))
    chance_of_right = 0.0
    for outcome in product((False, True), repeat=len(lower)):
        chance = np.prod(np.where(outcome, lower, 1.0 - lower))
        cast = {name: "right" if good else "tempting" for name, good in zip(names, outcome, strict=True)}
        winner = weighted_vote(cast, weight, classes, dict.fromkeys(names, 0.0))
        chance_of_right += chance * (winner == "right")
    assert chance_of_right == pytest.approx(confidence_by_lemma_1(lower, weights), abs=1e-9)


def test_with_more_labels_a_vote_can_be_right_without_half_of_the_weight():
    """Two of five arms are right and the others disagree: Lemma 1 counts it as lost, the vote wins it."""
    names = "abcde"
    cast = {"a": "right", "b": "right", "c": "x", "d": "y", "e": "z"}
    weights = dict.fromkeys(names, 1.0)
    assert weighted_vote(cast, weights, ["x", "y", "z", "right"], weights) == "right"
    certain = np.array([1.0, 1.0, 0.0, 0.0, 0.0])
    assert confidence_by_lemma_1(certain, np.ones(5)) == 0.0


@pytest.mark.parametrize("labels", [2, 3, 5])
def test_simulated_votes_are_right_at_least_as_often_as_lemma_1_says(labels):
    rng = np.random.default_rng(labels)
    lower, weights = rng.uniform(0.4, 0.9, 6), rng.random(6)
    names, classes = [f"{arm}" for arm in range(6)], [f"label {number}" for number in range(labels)]
    right = rng.random((8000, 6)) < lower
    voted = np.where(right, labels - 1, rng.integers(0, labels - 1, size=right.shape))
    weight = dict(zip(names, weights, strict=True))
    wins = [
        weighted_vote({n: classes[v] for n, v in zip(names, row, strict=True)}, weight, classes, weight)
        for row in voted.tolist()
    ]
    share = np.mean([winner == classes[-1] for winner in wins])
    expected = confidence_by_lemma_1(lower, weights)
    assert share >= expected - 0.015
    if labels == 2:
        assert share == pytest.approx(expected, abs=0.015)
