"""Vote patterns: who agreed with whom, whatever the labels are called.

A model of the votes that treats all labels alike needs no more than this, so thousands of rounds shrink to
some hundred patterns, and 22 labels need no more rounds than 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from camvo.typing import Array


@dataclass(frozen=True, slots=True, eq=False)
class PatternTable:
    """The patterns among some rounds.

    Attributes:
        rows: which of the pattern's labels each voter named, shape (P, K): 0 for the label with most votes, 1
            for the next (those with equally many in the order of their first voters), −1 for no vote.
        counts: how many rounds show each pattern, shape (P,).
        index: the pattern of each round, shape (n,).
        ranked: the label behind each position in the pattern, round by round, shape (n, K); −1 where the
            pattern has fewer labels.
    """

    rows: NDArray[np.int64]
    counts: Array
    index: NDArray[np.int64]
    ranked: NDArray[np.int64]


def tabulate_patterns(votes: NDArray[np.int64]) -> PatternTable:
    """Sort rounds by their pattern.

    Args:
        votes: the position of each vote in the label set, shape (n, K); −1 where a voter gave none.
    """
    n, arms = votes.shape
    there = votes >= 0
    same = (votes[:, :, None] == votes[:, None, :]) & there[:, :, None]
    size, first = same.sum(axis=2), same.argmax(axis=2)
    leads = there & (first == np.arange(arms))
    larger = size[:, None, :] > size[:, :, None]
    earlier = (size[:, None, :] == size[:, :, None]) & (first[:, None, :] < first[:, :, None])
    rank = (leads[:, None, :] & (larger | earlier)).sum(axis=2)
    named = np.where(there, rank, -1)
    rows, index, counts = np.unique(named, axis=0, return_inverse=True, return_counts=True)
    ranked = np.full((n, arms), -1)
    item, voter = np.nonzero(leads)
    ranked[item, named[item, voter]] = votes[item, voter]
    return PatternTable(rows, counts.astype(np.float64), index.reshape(-1), ranked)
