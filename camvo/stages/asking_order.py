"""The order of prices."""

from __future__ import annotations

from collections.abc import Mapping


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
