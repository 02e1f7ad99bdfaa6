"""What whoever knew every vote and the answer would have paid: a bound for policies that ask in stages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from camvo.replays.measures import weighted_labels
from camvo.typing import Array


@dataclass(frozen=True, slots=True)
class Clairvoyant:
    """The cheapest prefix of the models, the cheapest first, that has the answer.

    Attributes:
        reached: the share of the items on which a prefix has it.
        cost: the mean cost of these prefixes, and of the first model where no prefix has it: whoever knows
            that nothing helps stops at once.
    """

    reached: float
    cost: float


def clairvoyant(
    votes: NDArray[np.int64],
    weights: Array,
    costs: Array,
    answers: NDArray[np.int64],
    count: int,
) -> Clairvoyant | None:
    """The cheapest prefix of the models whose weighted vote is the answer, item by item.

    A policy may ask in another order and stop by luck, so this bounds those that ask the cheapest first.

    Args:
        votes: positions in the label set, shape (n, K); −1 where a model gave none.
        weights: of each model's vote, shape (K,).
        costs: of asking each model, shape (K,); of equal ones the first is asked first.
        answers: what the vote is to name, shape (n,): the truth, or the vote of all. Items where it is −1 are
            left out.
        count: M, the size of the label set.

    Returns:
        ``None`` where no item has an answer.
    """
    known = answers >= 0
    if not known.any():
        return None
    order = np.argsort(costs, kind="stable")
    paid = np.cumsum(costs[order])
    cost = np.full(int(known.sum()), paid[0])
    reached = np.zeros(len(cost), dtype=np.bool_)
    for length in range(1, len(order) + 1):
        prefix = order[:length]
        hit = weighted_labels(votes[known][:, prefix], weights[prefix], count) == answers[known]
        cost[hit & ~reached] = paid[length - 1]
        reached |= hit
    return Clairvoyant(float(reached.mean()), float(cost.mean()))
