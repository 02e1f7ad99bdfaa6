"""How dear votes must count so that a task costs no more than it may: the shadow price of a budget.

With so much money for so many tasks, the best labels are had if every task pays the same price for one more
right label. That price is not known beforehand. It is the least multiplier of all prices at which the plan
costs, on average over the votes to be expected, what each task may cost.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from camvo.joint.beliefs import Beliefs
from camvo.joint.plans.worth import plan_by_worth
from camvo.numerics.tolerances import TIE

_STEP: Final = 1.25
_STEPS: Final = 48
"""Multipliers are powers of 1.25, up to 45,000: tasks of nearly the same allowance share one plan."""


def expected_cost(beliefs: Beliefs, prices: tuple[float, ...], shares: tuple[float, ...]) -> float:
    """Compute what the best plan costs on average.

    Args:
        beliefs: the beliefs at the nodes of K arms.
        prices: the price of each arm in right labels, by which the plan is made, length K.
        shares: what each arm costs, in any unit, length K.

    Returns:
        The expected cost of a task, in the unit of ``shares``.
    """
    plan, lattice = plan_by_worth(beliefs, prices), beliefs.lattice
    cost = np.zeros(len(lattice.rows))
    for level, level_votes in zip(lattice.steps, beliefs.votes, strict=True):
        for step, votes in zip(level, level_votes, strict=True):
            asked = plan.next_arm[step.nodes] == step.arm
            after = np.where(step.following >= 0, cost[np.maximum(step.following, 0)], 0.0)
            spent = shares[step.arm] + (votes * after).sum(axis=0)
            cost[step.nodes] = np.where(asked, spent, cost[step.nodes])
    return float(cost[0])


def shadow_price(
    beliefs: Beliefs,
    prices: tuple[float, ...],
    shares: tuple[float, ...],
    allowance: float,
    draw: float,
) -> float:
    """Find the multiplier of the prices at which plans keep to the allowance on average.

    Between two multipliers the plan jumps, for example from one arm to two. A draw then chooses one of both
    plans, so that the money is used.

    Args:
        beliefs: the beliefs at the nodes of K arms.
        prices: the price of each arm in right labels, length K.
        shares: what each arm costs, in any unit, length K.
        allowance: what a task may cost on average, in the same unit.
        draw: a number drawn uniformly from [0, 1).

    Returns:
        The multiplier, at least 1; the largest one if no plan is cheap enough.
    """
    (within, cost), (beyond, dearer) = _around(beliefs, prices, shares, allowance)
    return beyond if dearer > cost and draw < (allowance - cost) / (dearer - cost) else within


@lru_cache(maxsize=256)
def _around(
    beliefs: Beliefs, prices: tuple[float, ...], shares: tuple[float, ...], allowance: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """The least multiplier that keeps to the allowance and the one before it, each with its expected cost."""

    def at(step: int) -> tuple[float, float]:
        multiplier = _STEP**step
        return multiplier, expected_cost(beliefs, tuple([price * multiplier for price in prices]), shares)

    if at(0)[1] <= allowance + TIE:
        return at(0), at(0)
    low, high = 0, _STEPS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if at(middle)[1] <= allowance + TIE else (middle, high)
    return at(high), at(low)
