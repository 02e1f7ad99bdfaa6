"""The panel's vote patterns: which voters agreed, whatever the labels are called.

The panel treats all labels alike, so it needs nothing else. Thousands of rounds shrink to some hundred
patterns, and 22 labels need no more rounds than 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from camvo.typing import Array


@dataclass(frozen=True, slots=True, eq=False)
class PatternTable:
    """The P distinct patterns among n rounds with K voters.

    The labels of a round are ranked by their number of votes; ties go to the label with the earlier first
    voter.

    Attributes:
        rows: the rank of the label that each voter of a pattern named, from 0, shape (P, K); −1 for no vote.
        counts: how many rounds have each pattern, shape (P,).
        index: the pattern of each round, shape (n,).
        ranked: the label at each rank in each round, shape (n, K); −1 if the round has fewer labels.
    """

    rows: NDArray[np.int64]
    counts: Array
    index: NDArray[np.int64]
    ranked: NDArray[np.int64]


def tabulate_patterns(votes: NDArray[np.int64]) -> PatternTable:
    """Find the distinct patterns of n rounds.

    Args:
        votes: label positions, shape (n, K); −1 for no vote.
    """
    n, arms = votes.shape
    voted = votes >= 0
    same = (votes[:, :, None] == votes[:, None, :]) & voted[:, :, None]
    size, first = same.sum(axis=2), same.argmax(axis=2)
    leads = voted & (first == np.arange(arms))
    larger = size[:, None, :] > size[:, :, None]
    earlier = (size[:, None, :] == size[:, :, None]) & (first[:, None, :] < first[:, :, None])
    rank = (leads[:, None, :] & (larger | earlier)).sum(axis=2)
    named = np.where(voted, rank, -1)
    rows, index, counts = np.unique(named, axis=0, return_inverse=True, return_counts=True)
    ranked = np.full((n, arms), -1)
    item, voter = np.nonzero(leads)
    ranked[item, named[item, voter]] = votes[item, voter]
    return PatternTable(rows, counts.astype(np.float64), index.reshape(-1), ranked)
