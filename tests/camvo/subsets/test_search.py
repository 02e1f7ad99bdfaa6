"""The Oracle against every set there is, with the winner that the documented rules name."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lemma_1 import confidence_by_lemma_1
from scipy.special import betainc

from camvo.errors import InvalidParameterError
from camvo.subsets.confidence import BetaConfidence, Copula, ExactConfidence
from camvo.subsets.oracle import BUDGET, MOST_ARMS, Subset, _sets_by_cost, cheapest_subset

TIE = 1e-12


@cache
def all_sets(n):
    return (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(float)


def all_beta(lower, weights):
    sets = all_sets(len(lower))
    right, wrong = sets @ (weights * lower), sets @ (weights * (1.0 - lower))
    with np.errstate(all="ignore"):
        proper = betainc(wrong, right, 0.5)
    return np.where(right <= TIE, 0.0, np.where(wrong <= TIE, 1.0, proper))


def all_exact(lower, weights):
    """Lemma 1 of all sets: each arm is out, in and wrong, or in and right."""
    lead, chance, number = np.zeros(1), np.ones(1), np.zeros(1, dtype=int)
    for arm, (p, w) in enumerate(zip(lower, weights, strict=True)):
        lead = np.concatenate((lead, lead - w, lead + w))
        chance = np.concatenate((chance, chance * (1.0 - p), chance * p))
        number = np.concatenate((number, number | 1 << arm, number | 1 << arm))
    return np.bincount(number, chance * (lead > TIE), 2 ** len(lower))


FORMS = {"beta": all_beta, "exact": all_exact}


def brute_force(costs, demands, delta, k_min, *, form, held, excluded):
    """The winner: cost, then confidence, then size, then the positions as a tuple."""
    n = len(costs)
    sets = all_sets(n).astype(bool)
    reached = np.min([FORMS[form](lower, weights) for lower, weights in demands], axis=0)
    out = [arm for arm in excluded if arm not in held]
    possible = (reached >= delta - TIE) & (sets.sum(axis=1) >= k_min)
    possible &= sets[:, held].all(axis=1) & ~sets[:, out].any(axis=1)
    cost = sets @ np.where(np.isin(np.arange(n), held), 0.0, costs)
    if not possible.any():
        return None
    possible &= cost <= cost[possible].min() * (1.0 + TIE)
    possible &= reached >= reached[possible].max() - TIE
    winners = [tuple(np.flatnonzero(row).tolist()) for row in sets[possible]]
    return min(winners, key=lambda arms: (len(arms), arms)), reached[possible].max()


def random_problem(rng, n):
    """Realistic, or full of ties in costs, weights and L, or with certain arms and arms of weight 0."""
    kind = rng.integers(4)
    costs = np.exp(rng.uniform(-3, 2, n)) if kind % 2 else rng.integers(0, 3, n).astype(float)
    demands = []
    for _ in range(rng.integers(1, 4)):
        lower = rng.uniform(0.45, 0.99, n) if kind < 2 else rng.choice([0.5, 0.7, 0.9, 1.0, 0.0], n)
        weights = lower * rng.uniform(0.7, 1.0, n) if kind < 2 else rng.choice([0.0, 0.3, 0.6, 1.0], n)
        demands.append((lower, weights))
    roles = rng.choice(3, size=n, p=[0.84, 0.08, 0.08])
    held, excluded = (np.flatnonzero(roles == role).tolist() for role in (1, 2))
    delta = float(rng.choice([0.0, 0.3, 0.5, 0.81, 0.9, 0.95, 0.99, 1.0, rng.uniform(0.6, 0.999)]))
    return costs, demands, delta, int(rng.integers(1, 5)), held, excluded


def agrees(problem, form):
    costs, demands, delta, k_min, held, excluded = problem
    chosen_set = cheapest_subset(costs, demands, delta, k_min, confidence=form, held=held, excluded=excluded)
    best = brute_force(*problem[:4], form=form, held=held, excluded=excluded)
    if best is None:
        assert chosen_set is None
    else:
        assert chosen_set is not None
        assert chosen_set.arms == best[0]
        assert chosen_set.confidence == pytest.approx(best[1], abs=1e-9)
        assert chosen_set.complete


@pytest.mark.parametrize("form", ["beta", "exact"])
@pytest.mark.parametrize(("most", "cases"), [(8, 1500), (10, 500), (13, 15)])
def test_the_winner_is_that_of_the_brute_force(form, most, cases):
    rng = np.random.default_rng(most)
    for _ in range(cases):
        n = int(rng.integers(1 if most == 8 else most - 1, most + 1))
        agrees(random_problem(rng, n), form)


def test_many_windows_lead_to_the_winner_of_the_brute_force():
    rng = np.random.default_rng(16)
    for _ in range(12):
        agrees(random_problem(rng, 16), "beta")


@pytest.mark.parametrize("form", ["beta", "exact"])
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 10))
@settings(deadline=None, max_examples=40)
def test_the_winner_is_that_of_the_brute_force_whatever_the_seed(form, seed, n):
    agrees(random_problem(np.random.default_rng(seed), n), form)


@pytest.mark.parametrize("form", ["beta", "exact", "copula"])
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 12))
@settings(deadline=None, max_examples=25)
def test_the_order_of_the_arms_changes_the_winner_only_between_full_ties(form, seed, n):
    rng = np.random.default_rng(seed)
    costs, lower, weights = rng.random(n), rng.uniform(0.5, 0.97, n), rng.random(n)
    order = rng.permutation(n)
    copulas = [Copula(np.eye(n))] if form == "copula" else []
    here = cheapest_subset(costs, [(lower, weights)], 0.9, 2, confidence=form, copulas=copulas)
    if form == "copula":
        # The random numbers belong to the columns, so the arms are shuffled by price alone.
        again = cheapest_subset(costs.copy(), [(lower, weights)], 0.9, 2, confidence=form, copulas=copulas)
        assert here == again
        return
    reordered = cheapest_subset(costs[order], [(lower[order], weights[order])], 0.9, 2, confidence=form)
    assert (here is None) == (reordered is None)
    if here is not None:
        assert sorted(order[list(reordered.arms)]) == list(here.arms)
        assert reordered.confidence == pytest.approx(here.confidence, abs=1e-12)


# The pieces.


@given(st.integers(0, 2**32 - 1), st.integers(0, 12), st.integers(0, 4), st.integers(0, 2))
@settings(deadline=None, max_examples=60)
def test_every_set_that_passes_comes_once_and_in_the_order_of_cost(seed, n, fewest, questions):
    rng = np.random.default_rng(seed)
    costs = np.sort(rng.choice([rng.random(n), rng.integers(0, 3, n).astype(float)]))
    screens = []
    for _ in range(questions):
        lines = int(rng.integers(1, 4))
        screens.append((rng.normal(size=(lines, n)), rng.normal(size=lines)))
    blocks = list(_sets_by_cost(costs, fewest, screens, 2**n))
    sets = np.concatenate([block for block, _ in blocks]) if blocks else np.zeros((0, n))
    prices = np.concatenate([price for _, price in blocks]) if blocks else np.zeros(0)
    assert np.all(np.diff(prices) >= 0.0)
    np.testing.assert_allclose(prices, sets @ costs, atol=1e-12)
    expected = all_sets(n)[all_sets(n).sum(axis=1) >= fewest]
    for values, thresholds in screens:
        expected = expected[np.any(expected @ values.T >= thresholds, axis=1)]
    assert len(np.unique(sets, axis=0)) == len(sets)
    assert {row.tobytes() for row in np.ascontiguousarray(sets)} == {
        row.tobytes() for row in np.ascontiguousarray(expected)
    }


@pytest.mark.parametrize("strategy", [BetaConfidence, ExactConfidence])
@given(seed=st.integers(0, 2**32 - 1), delta=st.floats(0.5, 1.0))
@settings(deadline=None, max_examples=60)
def test_every_set_that_reaches_delta_satisfies_the_linear_bounds(strategy, seed, delta):
    rng = np.random.default_rng(seed)
    _, ((lower, weights), *_), *_ = random_problem(rng, 10)
    weights = weights * rng.choice([1e-4, 0.1, 1.0, 30.0])
    question = strategy(lower, weights)
    sets = all_sets(10)
    reached = question.confidences(sets)
    assert reached.max() <= question.upper_bound() + 1e-9
    for target in (delta, float(reached.max())):
        lines = question.linear_bounds(target)
        if lines is not None:
            values, thresholds = lines
            enough = sets[reached >= target - TIE]
            assert np.all((enough @ values.T - thresholds).max(axis=1, initial=-np.inf) >= -1e-9)


@pytest.mark.parametrize("delta", [0.51, 0.6, 0.85, 0.9, 0.95, 0.99, 0.999, 0.99999])
def test_the_frontier_of_the_approximation_is_concave(delta):
    b = np.geomspace(1e-4, 200.0, 2001)
    low, high = b / 2.0, b * delta / (1.0 - delta) + 1e-3
    for _ in range(100):
        middle = (low + high) / 2.0
        enough = betainc(b, middle, 0.5) >= delta
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    slopes = np.diff(high) / np.diff(b)
    assert np.all(np.diff(slopes) <= 1e-9 * slopes[:-1])
    assert slopes[-1] > 1.0
    assert slopes[0] <= delta / (1.0 - delta)


@pytest.mark.parametrize("n", [9, 12, 13, 14, 16])
def test_lemma_1_is_the_same_however_many_sets_are_computed_together(n):
    rng = np.random.default_rng(n)
    lower, weights = rng.uniform(0.3, 0.99, n), rng.choice([0.0, 0.25, 0.5, 1.0], n, p=[0.05, 0.25, 0.3, 0.4])
    sets = np.concatenate((rng.integers(0, 2, (40, n)).astype(float), np.ones((2, n))))
    question = ExactConfidence(lower, weights)
    for row, reached in zip(sets > 0.0, question.confidences(sets), strict=True):
        assert reached == pytest.approx(confidence_by_lemma_1(lower[row], weights[row]), abs=1e-12)
        assert question.confidence_of(np.flatnonzero(row).tolist()) == pytest.approx(reached, abs=1e-12)


def test_many_large_sets_of_one_size_are_each_computed():
    rng = np.random.default_rng(0)
    lower, weights = rng.uniform(0.5, 0.9, 16), rng.random(16)
    sets = np.ones((30, 16))
    sets[np.arange(30), rng.integers(0, 16, 30)] = 0.0
    expected = [confidence_by_lemma_1(lower[row > 0.0], weights[row > 0.0]) for row in sets]
    np.testing.assert_allclose(ExactConfidence(lower, weights).confidences(sets), expected, atol=1e-12)


# The budget.


def hard():
    """Arms that cost nearly the same: the bounds let many sets through before one that suffices."""
    rng = np.random.default_rng(3)
    return 1.0 + 1e-3 * rng.random(MOST_ARMS), (rng.uniform(0.55, 0.75, MOST_ARMS), np.ones(MOST_ARMS))


@pytest.mark.parametrize(("form", "delta", "budget"), [("beta", 0.85, 1), ("exact", 0.85, 50)])
def test_a_search_that_runs_out_of_budget_returns_its_best_set_as_incomplete(form, delta, budget):
    costs, demand = hard()
    chosen_set = cheapest_subset(costs, [demand], delta, 1, confidence=form, budget=budget)
    assert not chosen_set.complete
    assert chosen_set == cheapest_subset(costs, [demand], delta, 1, confidence=form, budget=budget)
    question = {"beta": BetaConfidence, "exact": ExactConfidence}[form](*demand)
    assert chosen_set.confidence == question.confidence_of(list(chosen_set.arms)) >= delta


def test_a_search_that_finds_nothing_within_its_budget_returns_all_arms():
    """One good arm for each of two questions, none of them first in any order, and the others do harm."""
    n, delta = 12, 0.92
    demands = []
    for good in (4, 7):
        lower, weights = np.full(n, 0.5), np.full(n, 0.3)
        lower[good], weights[good] = 0.96, 1.0
        demands.append((lower, weights))
    costs = np.arange(1.0, n + 1.0)
    copulas = [Copula(np.eye(n))] * 2
    chosen_set = cheapest_subset(costs, demands, delta, confidence="copula", copulas=copulas, excluded=[0])
    assert chosen_set.complete
    assert {4, 7} <= set(chosen_set.arms)
    cut = cheapest_subset(costs, demands, delta, confidence="copula", copulas=copulas, excluded=[0], budget=1)
    assert not cut.complete
    assert cut.arms == tuple(range(1, n))
    assert cut.confidence < delta


@pytest.mark.parametrize("form", ["beta", "exact"])
def test_a_budget_that_is_enough_to_the_last_set_is_complete(form):
    costs, demand = np.array([1.0, 2.0, 4.0]), (np.array([0.6, 0.7, 0.95]), np.array([0.1, 0.1, 1.0]))
    # In the order of cost {2} is the fourth set: {0}, {1}, {0, 1}, {2}.
    assert cheapest_subset(costs, [demand], 0.94, confidence=form, budget=4) == cheapest_subset(
        costs, [demand], 0.94, confidence=form
    )
    assert cheapest_subset(costs, [demand], 0.94, confidence=form, budget=4) == Subset(
        (2,), pytest.approx(0.95, abs=0.05)
    )
    assert not cheapest_subset(costs, [demand], 0.94, confidence=form, budget=3).complete


def test_a_guess_that_is_cheaper_than_the_best_set_wins():
    """All arms are free: the budget ends among the small sets, the guesses know the large ones."""
    n = 16
    rng = np.random.default_rng(0)
    demand = (rng.uniform(0.7, 0.8, n), np.ones(n))
    chosen_set = cheapest_subset(np.zeros(n), [demand], 0.7, confidence="beta", budget=100)
    assert not chosen_set.complete
    assert len(chosen_set.arms) == n


@pytest.mark.parametrize("budget", [0, -1])
def test_a_search_needs_a_budget(budget):
    with pytest.raises(InvalidParameterError, match="budget"):
        cheapest_subset(np.ones(2), [(np.ones(2), np.ones(2))], 0.5, budget=budget)


def test_up_to_thirteen_arms_the_budget_never_runs_out():
    assert BUDGET >= 2**13
