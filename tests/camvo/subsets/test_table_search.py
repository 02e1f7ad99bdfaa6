"""The table of all sets against the search for one task, which is tested against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from camvo.errors import InvalidParameterError
from camvo.subsets.oracle import cheapest_subset, cheapest_subsets

TASKS = 40


def window(rng, arms, questions):
    """Tasks as they come: some arms without weight, some hopeless tasks, some certain ones."""
    demands = []
    for _ in range(questions):
        lower = rng.choice([rng.uniform(0.3, 0.99, (TASKS, arms)), rng.uniform(0.8, 1.0, (TASKS, arms))])
        weights = lower * rng.uniform(0.5, 1.0, (TASKS, arms))
        weights[:, rng.random(arms) < 0.1] = 0.0
        demands.append((lower, weights))
    return demands


def assert_as_one_by_one(costs, demands, delta, k_min, held):
    chosen_sets = cheapest_subsets(costs, demands, delta, k_min, held=held)
    for task, subset in enumerate(chosen_sets):
        alone = [(lower[task], weights[task]) for lower, weights in demands]
        expected = cheapest_subset(costs, alone, delta, k_min, held=held)
        if expected is None:
            assert subset is None
        else:
            assert subset.arms == expected.arms
            assert subset.confidence == pytest.approx(expected.confidence, abs=1e-12)
            assert subset.complete


@pytest.mark.parametrize("arms", [1, 2, 5, 7, 10])
@pytest.mark.parametrize("questions", [1, 2])
def test_every_task_gets_what_the_search_for_it_alone_finds(arms, questions):
    rng = np.random.default_rng(100 * arms + questions)
    for _ in range(25):
        costs = np.exp(rng.uniform(-3, 2, arms))
        delta, k_min = float(rng.uniform(0.55, 0.995)), int(rng.integers(1, 4))
        held = np.flatnonzero(rng.random(arms) < 0.1).tolist()
        assert_as_one_by_one(costs, window(rng, arms, questions), delta, k_min, held)


@pytest.mark.parametrize("price", [0.0, 1.0, 0.1 + 0.2])
@pytest.mark.parametrize("questions", [1, 2])
def test_ties_are_settled_as_in_the_search_for_one_task(price, questions):
    rng = np.random.default_rng(questions)
    for _ in range(25):
        costs = price * rng.integers(1, 4, 6)
        demands = window(rng, 6, questions)
        alike = rng.integers(6, size=2)
        for lower, weights in demands:
            lower[:, alike[0]], weights[:, alike[0]] = lower[:, alike[1]], weights[:, alike[1]]
        assert_as_one_by_one(costs, demands, 0.8, int(rng.integers(1, 4)), [])


def test_more_arms_than_there_are_cannot_be_asked():
    lower, weights = np.full((2, 3), 0.95), np.full((2, 3), 0.9)
    assert cheapest_subsets(np.ones(3), [(lower, weights)], 0.7, 4, held=[]) == [None, None]


@pytest.mark.parametrize("cost", [-1.0, np.inf, np.nan])
def test_negative_and_infinite_costs_are_refused(cost):
    with pytest.raises(InvalidParameterError, match="costs"):
        cheapest_subsets(np.array([cost]), [(np.ones((1, 1)), np.ones((1, 1)))], 0.7, 1, held=[])
