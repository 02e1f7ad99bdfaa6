"""In which order arms are asked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

_STEPS: Final = 4.0
"""Into how many steps a doubling of the worth is rounded. Evidence is about an order, and much of it is lost
with a change: which of two arms that are nearly alike comes first must not hang on noise."""


def cheapest_first(costs: Mapping[str, float]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The arms by price, and what each costs as a share of them all.

    Shares have two digits, so that tasks of a few words more are planned alike.
    """
    order = tuple(sorted(costs, key=lambda arm: (costs[arm], arm)))
    total = sum(costs[arm] for arm in order)
    shares = (float(f"{costs[arm] / total:.2g}") if total > 0.0 else 1.0 / len(order) for arm in order)
    return order, tuple(shares)


def most_weight_per_price(
    costs: Mapping[str, float], weights: Iterable[Mapping[str, float]]
) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The arms by what their votes weigh for their price, and what each costs as a share of them all.

    Args:
        costs: arm → its price, any one unit.
        weights: for each question arm → ω; every question counts alike. An arm without a weight comes last.
            Where nobody has one it is :func:`cheapest_first`.
    """
    cheapest, shares = cheapest_first(costs)
    share = dict(zip(cheapest, shares, strict=True))
    worth = dict.fromkeys(cheapest, 0.0)
    for of in weights:
        total = sum(of.values())
        worth = {arm: worth[arm] + of[arm] / total if total > 0.0 else worth[arm] for arm in worth}
    mean = sum(worth.values()) / len(worth) or 1.0

    def rank(arm: str) -> tuple[bool, float, float, float, str]:
        if not worth[arm]:
            return True, share[arm], 0.0, costs[arm], arm
        level: float = 2.0 ** (round(_STEPS * math.log2(worth[arm] / mean)) / _STEPS)
        return False, share[arm] / level, -level, costs[arm], arm

    order = tuple(sorted(cheapest, key=rank))
    return order, tuple(share[arm] for arm in order)
