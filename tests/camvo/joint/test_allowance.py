"""The shadow price: plans cost what a task may cost, and no plan that keeps to it is worth more."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest
from made_up_votes import no_rounds

from camvo.joint.beliefs import Beliefs, form_beliefs
from camvo.joint.models import Kinds
from camvo.joint.plans import _expected_cost, plan_by_worth, shadow_price

SHARES = (0.25, 0.65, 0.1)
"""What each of three arms costs, as a share of the price of all."""

SKILLED = Kinds(
    np.array([[0.9, 0.6], [0.97, 0.8], [0.8, 0.5]]), np.array([0.3, 0.5]), np.array([0.7, 0.3]), 3, np.ones(3)
)


@cache
def beliefs() -> Beliefs:
    return form_beliefs(SKILLED, no_rounds(3), 3)


PRICES = tuple(share / 16.0 for share in SHARES)


def simulated_cost(prices: tuple[float, ...], draws: int = 20_000) -> float:
    """The oracle: tasks are simulated by the beliefs' own probabilities of votes."""
    of, random = beliefs(), np.random.default_rng(4)
    plan, lattice = plan_by_worth(of, prices), of.lattice
    chances = {
        (int(node), step.arm): (votes[:, place], step.following[:, place])
        for level, level_votes in zip(lattice.steps, of.votes, strict=True)
        for step, votes in zip(level, level_votes, strict=True)
        for place, node in enumerate(step.nodes)
    }
    total = 0.0
    for _ in range(draws):
        node = 0
        while (arm := int(plan.next_arm[node])) >= 0:
            chance, following = chances[node, arm]
            total += SHARES[arm]
            node = int(following[random.choice(len(chance), p=chance / chance.sum())])
    return total / draws


@pytest.mark.parametrize("dearer", [1.0, 8.0])
def test_the_expected_cost_is_that_of_simulated_tasks(dearer: float) -> None:
    prices = tuple(dearer * price for price in PRICES)
    assert _expected_cost(beliefs(), prices, SHARES) == pytest.approx(simulated_cost(prices), abs=0.01)


def test_without_need_prices_stay_as_they_are() -> None:
    assert shadow_price(beliefs(), PRICES, SHARES, 1.0, 0.5) == 1.0


@pytest.mark.parametrize("allowance", [0.15, 0.3, 0.45])
def test_tasks_cost_what_they_may_on_average(allowance: float) -> None:
    costs = []
    for draw in np.linspace(0.0, 1.0, 200, endpoint=False):
        dearer = shadow_price(beliefs(), PRICES, SHARES, allowance, float(draw))
        costs.append(_expected_cost(beliefs(), tuple(dearer * price for price in PRICES), SHARES))
    assert np.mean(costs) == pytest.approx(allowance, abs=0.02)


def test_less_money_never_makes_prices_lower() -> None:
    dearer = [shadow_price(beliefs(), PRICES, SHARES, allowance, 0.99) for allowance in (0.1, 0.2, 0.4, 0.8)]
    assert dearer == sorted(dearer, reverse=True)


def test_an_allowance_below_the_cheapest_arm_asks_that_arm_alone() -> None:
    dearer = shadow_price(beliefs(), PRICES, SHARES, 0.01, 0.0)
    prices = tuple(dearer * price for price in PRICES)
    assert _expected_cost(beliefs(), prices, SHARES) == pytest.approx(min(SHARES))


def test_no_fixed_set_of_arms_is_more_often_right_for_the_same_money() -> None:
    """Every fixed set, at its own cost, against the plan that may cost as much on average."""
    of = beliefs()
    for chosen in product((False, True), repeat=3):
        cost = sum(share for share, asked in zip(SHARES, chosen, strict=True) if asked)
        if any(chosen):
            mixed = [right_by_plan(cost, draw) for draw in np.linspace(0.0, 1.0, 50, endpoint=False)]
            assert np.mean(mixed) >= right_by_set(of, chosen) - 0.005


def right_by_plan(allowance: float, draw: float) -> float:
    dearer = shadow_price(beliefs(), PRICES, SHARES, allowance, float(draw))
    prices = tuple(dearer * price for price in PRICES)
    plan = plan_by_worth(beliefs(), prices)
    paid = _expected_cost(beliefs(), prices, prices)
    return float(plan.asking[0].max()) + paid


def right_by_set(of: Beliefs, chosen: tuple[bool, ...]) -> float:
    free = tuple(0.0 if asked else 9.0 for asked in chosen)
    return float(plan_by_worth(of, free).asking[0].max())
