"""What a replay leaves: the decisions of a policy on each item, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from camvo.typing import Array


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """The decisions of a policy on n items, in the order of the replay.

    Attributes:
        labels: positions in the table's label set, shape (n,); −1 where no model answered.
        scores: the policy's own scores in [0, 1], shape (n,); NaN where no model answered.
        costs: the cost of each item, in the unit of the table's prices, shape (n,).
        asked: whether each model was asked, shape (n, K), in the order of the table's prices.
        trust: the trust in each score, in [0, 1], shape (n,) (:class:`camvo.votes.decision.Decision`).
        labelled_at: the number of items that had been decided when a human labelled each item, shape (n,); 0
            for items that no human labels.
    """

    labels: NDArray[np.int64]
    scores: Array
    costs: Array
    asked: NDArray[np.bool_]
    trust: Array
    labelled_at: NDArray[np.int64]

    @classmethod
    def blank(cls, items: int, models: int) -> Trace:
        """The trace of n items about which none of K models was asked yet."""
        return cls(
            labels=np.full(items, -1),
            scores=np.full(items, np.nan),
            costs=np.zeros(items),
            asked=np.zeros((items, models), dtype=np.bool_),
            trust=np.zeros(items),
            labelled_at=np.zeros(items, dtype=np.int64),
        )
