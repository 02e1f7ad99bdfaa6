"""A bound for policies that query models in stages: the cost of stopping as soon as the vote is right.

Only a clairvoyant, who knows every vote and the answer in advance, could stop so early.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from camvo.replays.measures import weighted_labels
from camvo.typing import Array


@dataclass(frozen=True, slots=True)
class ClairvoyantBound:
    """The mean over items of the shortest sequence of models whose weighted vote is the answer.

    A sequence starts with the cheapest model and adds the others in ascending order of cost.

    Attributes:
        reached: the share of items that have such a sequence, in [0, 1].
        cost: the mean cost per item of that sequence, in the unit of the prices. An item without such a
            sequence counts with the cost of the cheapest model.
    """

    reached: float
    cost: float


def clairvoyant_bound(
    votes: NDArray[np.int64],
    weights: Array,
    costs: Array,
    answers: NDArray[np.int64],
    count: int,
) -> ClairvoyantBound | None:
    """Compute the bound for policies that ask the cheapest model first.

    A policy that asks in another order can be cheaper than this.

    Args:
        votes: label positions, shape (n, K); −1 where a model gave no vote.
        weights: the weight of each model's vote, shape (K,).
        costs: the cost of asking each model about one item, shape (K,). Models of equal cost are asked in
            the order of the columns.
        answers: the label positions that the vote has to reach, shape (n,): the truth or the full vote.
            Items with −1 are ignored.
        count: M, the number of labels.

    Returns:
        The bound, or ``None`` if no item has an answer.
    """
    known = answers >= 0
    if not known.any():
        return None
    order = np.argsort(costs, kind="stable")
    prefix_costs = np.cumsum(costs[order])
    cost = np.full(int(known.sum()), prefix_costs[0])
    reached = np.zeros(len(cost), dtype=np.bool_)
    for length in range(1, len(order) + 1):
        prefix = order[:length]
        correct = weighted_labels(votes[known][:, prefix], weights[prefix], count) == answers[known]
        cost[correct & ~reached] = prefix_costs[length - 1]
        reached |= correct
    return ClairvoyantBound(float(reached.mean()), float(cost.mean()))
