"""The table of all sets against the search for one task, which is tested against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from camvo.oracle import cheapest
from camvo.window_search import cheapest_of_each

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


@pytest.mark.parametrize("arms", [1, 2, 5, 7, 10])
@pytest.mark.parametrize("questions", [1, 2])
def test_every_task_gets_what_the_search_for_it_alone_finds(arms, questions):
    rng = np.random.default_rng(100 * arms + questions)
    for _ in range(25):
        costs = np.exp(rng.uniform(-3, 2, arms))
        demands = window(rng, arms, questions)
        delta, k_min = float(rng.uniform(0.55, 0.995)), int(rng.integers(1, 4))
        held = np.flatnonzero(rng.random(arms) < 0.1).tolist()
        found = cheapest_of_each(costs, demands, delta, k_min, held=held)
        for task, subset in enumerate(found):
            alone = [(lower[task], weights[task]) for lower, weights in demands]
            expected = cheapest(costs, alone, delta, k_min, held=held)
            if expected is None:
                assert subset is None
            else:
                assert subset.arms == expected.arms
                assert subset.confidence == pytest.approx(expected.confidence, abs=1e-12)
                assert subset.complete


def test_a_set_that_shares_its_cost_with_another_is_left_to_be_settled():
    lower, weights = np.full((2, 3), 0.95), np.full((2, 3), 0.9)
    (one, two) = cheapest_of_each(np.array([1.0, 1.0, 5.0]), [(lower, weights)], 0.7, 1, held=[])
    assert not one.complete
    assert not two.complete
    (alone, _) = cheapest_of_each(np.array([1.0, 2.0, 5.0]), [(lower, weights)], 0.7, 1, held=[])
    assert alone.complete
    assert alone.arms == (0,)
