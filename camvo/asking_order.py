"""In which order arms are asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

_NOTHING: Final = 1e-3
"""The worth of an arm whose vote has no weight, as a share of all: it comes last."""


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
        weights: for each question arm → ω; every question counts alike. Without any it is
            :func:`cheapest_first`.
    """
    cheapest, shares = cheapest_first(costs)
    share = dict(zip(cheapest, shares, strict=True))
    worth = dict.fromkeys(cheapest, _NOTHING)
    for of in weights:
        total = sum(of.values())
        worth = {arm: worth[arm] + of[arm] / total if total > 0 else worth[arm] for arm in worth}
    order = tuple(sorted(cheapest, key=lambda arm: (share[arm] / worth[arm], -worth[arm], costs[arm], arm)))
    return order, tuple(share[arm] for arm in order)
