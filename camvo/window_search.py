"""The Oracle for many tasks with the same prices: one table of sets serves them all.

With a dozen arms or fewer every set is listed once, in the order of cost; what a set's vote is worth to each
task is then two matrix products, and the first set that can be confident enough is the first candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from camvo.beta_confidence import may_reach
from camvo.confidence import TIE, beta_of_sums
from camvo.oracle import Demand, Subset
from camvo.search import COST_TIE
from camvo.typing import Array

MOST_ARMS = 12
"""With more arms than this the table of all sets costs more than the search."""


@dataclass(frozen=True, slots=True, eq=False)
class _Sets:
    """All sets that may be asked, by cost: indicators, shape (K, m), and whether another costs the same."""

    indicators: Array
    tied: NDArray[np.bool_]

    def subset(self, number: int, confidence: float) -> Subset:
        arms = tuple(self.indicators[:, number].nonzero()[0].tolist())
        return Subset(arms, confidence, not self.tied[number])


def cheapest_of_each(
    costs: Array, demands: Sequence[Demand], delta: float, k_min: int, *, held: Sequence[int]
) -> list[Subset | None]:
    """The cheapest set for each task by the Beta approximation: what :func:`camvo.oracle.cheapest` finds.

    Args:
        costs: what asking each arm costs in every task, shape (K,), K ≤ :data:`MOST_ARMS`.
        demands: one (L, ω) a question, each of shape (W, K): a row for each task.
        delta: δ in (½, 1).
        k_min: the fewest arms in a set.
        held: positions that are in every set.

    Returns:
        The subset of each task, ``None`` where there is no such set; ``complete`` is false where another set
        costs the same and the tie is still to be settled.
    """
    sets = _sets(costs.tobytes(), tuple(held), k_min)
    sums = [
        ((weights * lower) @ sets.indicators, (weights * (1.0 - lower)) @ sets.indicators)
        for lower, weights in demands
    ]
    hopeful = np.logical_and.reduce([may_reach(delta, right, wrong) for right, wrong in sums])
    winners = np.full(len(hopeful), -1)
    confidences = np.zeros(len(hopeful))
    (open_tasks,) = hopeful.any(axis=1).nonzero()
    while len(open_tasks):
        first = hopeful[open_tasks].argmax(axis=1)
        reached = np.min(
            [beta_of_sums(right[open_tasks, first], wrong[open_tasks, first]) for right, wrong in sums],
            axis=0,
        )
        enough = reached >= delta - TIE
        winners[open_tasks[enough]] = first[enough]
        confidences[open_tasks[enough]] = reached[enough]
        hopeful[open_tasks, first] = False
        open_tasks = open_tasks[~enough]
        open_tasks = open_tasks[hopeful[open_tasks].any(axis=1)]
    return [
        None if winner < 0 else sets.subset(winner, confidence)
        for winner, confidence in zip(winners.tolist(), confidences.tolist(), strict=True)
    ]


@lru_cache(maxsize=64)
def _sets(costs: bytes, held: tuple[int, ...], k_min: int) -> _Sets:
    prices = np.frombuffer(costs, np.float64)
    numbers = np.arange(2 ** len(prices))
    members = (numbers[:, None] >> np.arange(len(prices)) & 1).astype(np.bool_)
    members = members[members[:, list(held)].all(axis=1) & (members.sum(axis=1) >= k_min)]
    extra = prices.copy()
    extra[list(held)] = 0.0
    cost = members @ extra
    order = cost.argsort(kind="stable")
    members, cost = members[order], cost[order]
    tied = np.append(cost[1:] <= cost[:-1] * (1.0 + COST_TIE), False)
    tied[1:] |= tied[:-1].copy()
    return _Sets(members.T.astype(np.float64), tied)
