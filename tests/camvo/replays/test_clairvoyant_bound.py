from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from camvo.replays.measures import accuracy, clairvoyant_bound, full_vote, full_vote_weights
from camvo.votes.labels import weighted_vote

COSTS = np.array([4.0, 1.0, 2.0])
EQUAL = np.ones(3)


def bound_of(row, answer, weights=EQUAL):
    return clairvoyant_bound(np.array([row]), weights, COSTS, np.array([answer]), 3)


def test_the_cheapest_model_is_enough_if_its_vote_is_the_answer():
    bound = bound_of([0, 1, 2], 1)
    assert (bound.reached, bound.cost) == (1.0, 1.0)


def test_models_are_added_until_the_vote_is_the_answer():
    bound = bound_of([2, 1, 2], 2, np.array([1.0, 0.9, 0.8]))
    assert (bound.reached, bound.cost) == (1.0, 7.0)


def test_without_a_prefix_that_has_the_answer_only_the_cheapest_model_is_paid():
    bound = bound_of([1, 1, 1], 2)
    assert (bound.reached, bound.cost) == (0.0, 1.0)


def test_items_without_an_answer_do_not_count():
    votes = np.array([[0, 1, 2], [1, 1, 1]])
    assert clairvoyant_bound(votes, EQUAL, COSTS, np.array([1, -1]), 3) == bound_of([0, 1, 2], 1)
    assert clairvoyant_bound(votes, EQUAL, COSTS, np.array([-1, -1]), 3) is None


def one_by_one(votes, weights, answers, labels):
    """Compute the bound item by item with the vote that policies use."""
    order, cheapest = np.argsort(COSTS, kind="stable"), []
    for row, answer in zip(votes, answers, strict=True):
        costs = [np.inf]
        for length in range(1, len(order) + 1):
            cast = {f"{arm}": labels[row[arm]] for arm in order[:length] if row[arm] >= 0}
            values = {f"{arm}": weights[arm] for arm in range(3)}
            ties = dict.fromkeys(values, 0.0)
            if cast and weighted_vote(cast, values, labels, ties) == labels[answer]:
                costs.append(COSTS[order[:length]].sum())
        cheapest.append(min(costs))
    reached = np.isfinite(cheapest)
    return reached.mean(), np.where(reached, cheapest, COSTS.min()).mean()


@given(
    npst.arrays(np.int64, (6, 3), elements=st.integers(-1, 2)),
    npst.arrays(np.int64, 6, elements=st.integers(0, 2)),
    npst.arrays(np.float64, 3, elements=st.sampled_from([0.0, 0.5, 0.6, 1.1])),
)
def test_it_is_the_cheapest_prefix_of_every_item(votes, answers, weights):
    bound = clairvoyant_bound(votes, weights, COSTS, answers, 3)
    assert (bound.reached, bound.cost) == pytest.approx(one_by_one(votes, weights, answers, ("a", "b", "c")))


def test_it_is_right_at_least_as_often_as_the_full_vote_and_always_reaches_its_label():
    rng = np.random.default_rng(3)
    truth = rng.integers(3, size=400)
    votes = np.where(rng.random((400, 3)) < 0.6, truth[:, None], rng.integers(-1, 3, (400, 3)))
    weights, full = full_vote_weights(votes, truth), full_vote(votes, truth, 3)
    assert clairvoyant_bound(votes, weights, COSTS, truth, 3).reached >= accuracy(full, truth)
    assert clairvoyant_bound(votes, weights, COSTS, full, 3).reached == 1.0
