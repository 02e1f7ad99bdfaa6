"""The order in which arms are asked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

_STEPS_PER_DOUBLING: Final = 4.0
"""Into how many steps a doubling of an arm's weight is rounded.

Evidence about stopping belongs to one order, and a new order loses much of it. Rounding keeps noise from
swapping arms that weigh nearly the same.
"""


def cheapest_first(costs: Mapping[str, float]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Sort the arms by price.

    Args:
        costs: arm → its price, in any one unit, at least one arm.

    Returns:
        The arms, the cheapest first, and each arm's share of the price of all, in the same order. Shares are
        rounded to two digits, so that a task of a few more words is planned in the same way.
    """
    order = tuple(sorted(costs, key=lambda arm: (costs[arm], arm)))
    total = sum(costs[arm] for arm in order)
    shares = (float(f"{costs[arm] / total:.2g}") if total > 0.0 else 1.0 / len(order) for arm in order)
    return order, tuple(shares)


def most_weight_per_price(
    costs: Mapping[str, float], weights: Iterable[Mapping[str, float]]
) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Sort the arms by the weight of their votes per price.

    Args:
        costs: arm → its price, in any one unit, at least one arm.
        weights: for each question, arm → ω. Every question counts the same. An arm without any weight comes
            last. If no arm has a weight, the order is that of :func:`cheapest_first`.

    Returns:
        The arms, and each arm's share of the price of all as in :func:`cheapest_first`, in the same order.
    """
    cheapest, shares = cheapest_first(costs)
    share = dict(zip(cheapest, shares, strict=True))
    weight = dict.fromkeys(cheapest, 0.0)
    for question_weights in weights:
        total = sum(question_weights.values())
        weight = {
            arm: weight[arm] + question_weights[arm] / total if total > 0.0 else weight[arm] for arm in weight
        }
    mean = sum(weight.values()) / len(weight) or 1.0

    def rank(arm: str) -> tuple[bool, float, float, float, str]:
        if not weight[arm]:
            return True, share[arm], 0.0, costs[arm], arm
        steps = round(_STEPS_PER_DOUBLING * math.log2(weight[arm] / mean))
        rounded: float = 2.0 ** (steps / _STEPS_PER_DOUBLING)
        return False, share[arm] / rounded, -rounded, costs[arm], arm

    order = tuple(sorted(cheapest, key=rank))
    return order, tuple(share[arm] for arm in order)
