from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lemma_1 import confidence_by_lemma_1
from scipy import stats

from camvo.errors import InvalidParameterError
from camvo.subsets import oracle
from camvo.subsets.oracle import MOST_ARMS, Subset, cheapest_subset


def beta_tail(lower, weights):
    right, wrong = float(weights @ lower), float(weights @ (1.0 - lower))
    if right <= 1e-12:
        return 0.0
    return 1.0 if wrong <= 1e-12 else float(stats.beta.sf(0.5, right, wrong))


FORMS = {"beta": beta_tail, "exact": confidence_by_lemma_1}


def brute_force(costs, demands, delta, k_min, form, *, held=(), excluded=()):
    """(cost, confidence, size) of the best set, over all sets."""
    ranked = []
    allowed = [arm for arm in range(len(costs)) if arm not in excluded or arm in held]
    for size in range(max(k_min, 1), len(allowed) + 1):
        for arms in map(list, combinations(allowed, size)):
            if not set(held) <= set(arms):
                continue
            reached = min(FORMS[form](lower[arms], weights[arms]) for lower, weights in demands)
            if reached >= delta:
                ranked.append((sum(costs[arm] for arm in arms if arm not in held), -reached, size))
    return min(ranked, default=None)


@st.composite
def problems(draw, most_arms, costs):
    """A random problem: several questions, some arms held, some excluded."""
    n = draw(st.integers(1, most_arms))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    demands = [
        (rng.beta(3.0, 1.0, size=n), rng.random(n) * (rng.random(n) < 0.9))
        for _ in range(draw(st.integers(1, 3)))
    ]
    roles = rng.choice(3, size=n, p=[0.7, 0.15, 0.15])
    return (
        costs(rng, n),
        demands,
        float(rng.choice([0.0, 0.5, 0.8, 0.9, 0.97])),
        draw(st.integers(1, 4)),
        list(np.flatnonzero(roles == 1)),
        list(np.flatnonzero(roles == 2)),
    )


def check_against_brute_force(problem, form):
    costs, demands, delta, k_min, held, excluded = problem
    chosen_set = cheapest_subset(costs, demands, delta, k_min, confidence=form, held=held, excluded=excluded)
    best = brute_force(costs, demands, delta, k_min, form, held=held, excluded=excluded)
    if best is None or chosen_set is None:
        assert chosen_set is best is None
        return
    arms = list(chosen_set.arms)
    assert set(held) <= set(arms)
    assert not set(excluded) & set(arms)
    assert arms == sorted(set(arms))
    reached = min(FORMS[form](lower[arms], weights[arms]) for lower, weights in demands)
    assert chosen_set.confidence == pytest.approx(reached, abs=1e-7)
    cost = sum(costs[arm] for arm in arms if arm not in held)
    assert (cost, -chosen_set.confidence) == pytest.approx(best[:2], abs=1e-7)


@pytest.mark.parametrize("form", ["beta", "exact"])
@given(problem=problems(8, lambda rng, n: rng.random(n)))
@settings(deadline=None, max_examples=60)
def test_the_oracle_is_brute_force(form, problem):
    check_against_brute_force(problem, form)


@pytest.mark.parametrize("form", ["beta", "exact"])
@given(problem=problems(6, lambda rng, n: rng.integers(0, 4, size=n).astype(float)))
@settings(deadline=None, max_examples=60)
def test_among_sets_of_equal_cost_the_oracle_takes_the_most_confident(form, problem):
    check_against_brute_force(problem, form)


def test_among_sets_of_equal_cost_and_confidence_the_oracle_takes_the_smallest():
    lower, weights = np.array([0.9, 0.9, 0.6]), np.array([1.0, 0.0, 0.0])
    assert cheapest_subset(np.zeros(3), [(lower, weights)], 0.8, confidence="exact") == Subset((0,), 0.9)


def test_costs_that_differ_by_rounding_alone_are_equal():
    """0.1 + 0.7 < 0.8 in floating point: the pair must not win, the single arm is as cheap and smaller."""
    assert 0.1 + 0.7 < 0.8
    costs = np.array([0.8, 0.1, 0.7])
    certain = np.ones(3)
    demands = [(certain, np.array([1.0, 1.0, 0.0])), (certain, np.array([1.0, 0.0, 1.0]))]
    for unit in (1.0, 1e-6, 1e6):
        chosen_set = cheapest_subset(unit * costs, demands, 0.9, confidence="exact")
        assert chosen_set == Subset((0,), 1.0)


def test_equal_sets_leave_the_choice_to_the_order_of_the_arms():
    same = (np.full(4, 0.9), np.ones(4))
    assert cheapest_subset(np.ones(4), [same], 0.9, confidence="exact").arms == (0,)


@pytest.mark.parametrize("form", ["beta", "exact"])
def test_every_question_is_satisfied_by_the_one_set(form):
    first = (np.array([0.99, 0.5, 0.5]), np.array([1.0, 0.0, 0.0]))
    second = (np.array([0.5, 0.99, 0.5]), np.array([0.0, 1.0, 0.0]))
    costs = np.array([1.0, 2.0, 0.1])
    assert cheapest_subset(costs, [first], 0.9, confidence=form).arms == (0,)
    assert cheapest_subset(costs, [first, second], 0.9, confidence=form).arms == (0, 1)


def test_at_least_k_min_arms_are_taken_and_held_ones_count():
    demand = (np.array([0.99, 0.6, 0.6, 0.6]), np.array([1.0, 0.1, 0.1, 0.1]))
    costs = np.array([1.0, 2.0, 3.0, 4.0])
    assert cheapest_subset(costs, [demand], 0.9, 3, confidence="exact").arms == (0, 1, 2)
    assert cheapest_subset(costs, [demand], 0.9, 3, confidence="exact", held=[3]).arms == (0, 1, 3)


def test_a_held_arm_costs_nothing_more():
    demand = (np.full(3, 0.95), np.ones(3))
    assert cheapest_subset(np.array([9.0, 1.0, 1.0]), [demand], 0.9, confidence="exact", held=[0]).arms == (
        0,
    )


@pytest.mark.parametrize("k_min", [3, 50])
def test_more_arms_than_there_are_cannot_be_asked(k_min):
    assert cheapest_subset(np.ones(2), [(np.ones(2), np.ones(2))], 0.5, k_min) is None


def test_without_an_arm_there_is_no_set():
    assert cheapest_subset(np.zeros(0), [(np.zeros(0), np.zeros(0))], 0.0) is None
    assert cheapest_subset(np.ones(2), [(np.ones(2), np.ones(2))], 0.0, excluded=[0, 1]) is None


@pytest.mark.parametrize("form", ["beta", "exact"])
def test_delta_0_takes_the_cheapest_arm_even_without_weight(form):
    chosen_set = cheapest_subset(np.array([3.0, 1.0]), [(np.full(2, 0.5), np.zeros(2))], 0.0, confidence=form)
    assert chosen_set == Subset((1,), 0.0)


@pytest.mark.parametrize("form", ["beta", "exact"])
def test_delta_1_is_reached_by_certain_arms_only(form):
    assert cheapest_subset(np.ones(2), [(np.array([0.999, 0.9]), np.ones(2))], 1.0, confidence=form) is None
    assert cheapest_subset(np.ones(2), [(np.array([0.999, 1.0]), np.ones(2))], 1.0, confidence=form).arms == (
        1,
    )


def test_a_single_arm_is_taken_when_it_is_confident_enough():
    demand = (np.array([0.9]), np.array([0.4]))
    assert cheapest_subset(np.ones(1), [demand], 0.9, confidence="exact") == Subset((0,), 0.9)
    assert cheapest_subset(np.ones(1), [demand], 0.91, confidence="exact") is None


def test_the_most_arms_are_searched():
    rng = np.random.default_rng(0)
    costs, demand = rng.random(MOST_ARMS), (rng.uniform(0.6, 0.9, MOST_ARMS), rng.random(MOST_ARMS))
    chosen_set = cheapest_subset(costs, [demand], 0.9, 3)
    arms = list(chosen_set.arms)
    assert beta_tail(demand[0][arms], demand[1][arms]) == pytest.approx(chosen_set.confidence, abs=1e-9)
    assert chosen_set.confidence >= 0.9
    assert len(arms) >= 3


@pytest.mark.parametrize("form", ["beta", "exact"])
@pytest.mark.parametrize("n", [7, 12])
def test_the_block_size_changes_nothing(monkeypatch, form, n):
    rng = np.random.default_rng(1)
    costs = rng.integers(0, 3, size=n).astype(float)
    demand = (rng.uniform(0.6, 0.95, n), rng.random(n))
    answers = set()
    for block, window in ((1, 1), (3, 2), (1000, 64)):
        monkeypatch.setattr(oracle, "_BLOCK", block)
        monkeypatch.setattr(oracle, "_WINDOW", window)
        answers.add(cheapest_subset(costs, [demand], 0.9, 2, confidence=form))
    assert len(answers) == 1


@pytest.mark.parametrize(
    ("costs", "demands"),
    [
        (np.ones(2), []),
        (np.array([1.0, -1.0]), [(np.ones(2), np.ones(2))]),
        (np.array([1.0, np.nan]), [(np.ones(2), np.ones(2))]),
        (np.array([1.0, np.inf]), [(np.ones(2), np.ones(2))]),
        (np.ones((2, 1)), [(np.ones(2), np.ones(2))]),
        (np.ones(2), [(np.ones(3), np.ones(2))]),
        (np.ones(2), [(np.ones(2), np.ones(3))]),
        (np.ones(MOST_ARMS + 1), [(np.ones(MOST_ARMS + 1), np.ones(MOST_ARMS + 1))]),
    ],
    ids=["no question", "negative", "nan", "infinite", "matrix", "L shape", "weight shape", "too many"],
)
def test_a_problem_that_makes_no_sense_is_refused(costs, demands):
    with pytest.raises(InvalidParameterError):
        cheapest_subset(costs, demands, 0.9)


def test_held_arms_do_not_count_towards_the_most_arms():
    n = MOST_ARMS + 5
    chosen_set = cheapest_subset(np.ones(n), [(np.full(n, 0.9), np.ones(n))], 0.5, held=list(range(n)))
    assert chosen_set.arms == tuple(range(n))
