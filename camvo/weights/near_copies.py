"""Near-copies: models that say the same far too often to be two opinions, and count as one.

Two columns of a real table agree on 99.9% of the items. Counted as two votes they outvote a better model, and
make any posterior too sure. Two models that part on at most 1% of the items may be merged whatever they are:
the vote of one is the vote of both, up to that 1%. That alone would merge all models of an easy question, so
a pair must also part ten times more rarely than either of the two parts from any third model. Where there is
no third to compare with, or all agree alike, nobody is a copy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from camvo.numerics.proportion import upper_bound
from camvo.typing import Array

APART = 0.01
"""Near-copies part on at most this share of the items …"""

RATIO = 0.1
"""… and on at most this share of those on which either parts from the model that it is closest to."""

LEVEL = 0.95
"""How sure the first of the two has to be: some 300 common rounds without a difference. At ½ it takes 70."""


def near_copies(shared: Array, apart: Array, level: float = LEVEL) -> tuple[int, ...]:
    """Each model's seat: near-copies share one.

    Args:
        shared: how many rounds each pair voted in, shape (K, K).
        apart: in how many of them the two votes differed, shape (K, K).
        level: how sure it has to be that a pair parts rarely.

    Returns:
        The position of the first model among each model's copies, itself where it has none; copies of copies
        are copies. Shape (K,).
    """
    arms = len(shared)
    rate = np.where(shared > 0.0, apart / np.maximum(shared, 1.0), 1.0)
    most = upper_bound(apart, shared, level)
    close = (shared > 0.0) & (most <= APART)
    seats = list(range(arms))
    for one in range(arms):
        for other in range(one + 1, arms):
            third = ~(close[one] | close[other])
            third[[one, other]] = False
            if not (close[one, other] and third.any()):
                continue
            if rate[one, other] <= RATIO * rate[[one, other]][:, third].min():
                first, gone = sorted((seats[one], seats[other]))
                seats = [first if seat == gone else seat for seat in seats]
    return tuple(seats)


def near_copies_in(votes: NDArray[np.int64], level: float = LEVEL) -> tuple[int, ...]:
    """The seats of :func:`near_copies` from votes, shape (n, K), −1 where a model gave none."""
    there = votes >= 0
    shared = there.astype(np.float64).T @ there
    apart = np.zeros_like(shared)
    for arm in range(votes.shape[1]):
        apart[arm] = (there & there[:, [arm]] & (votes != votes[:, [arm]])).sum(axis=0)
    return near_copies(shared, apart, level)


def merge_copies(votes: NDArray[np.int64], seats: Sequence[int]) -> NDArray[np.int64]:
    """One vote a seat, shape (n, number of seats), seats in ascending order; −1 where a seat is silent.

    Where copies differ, the label that more of them voted for counts, then the first copy's.
    """
    columns = []
    for seat in sorted(set(seats)):
        members = votes[:, [position for position, taken in enumerate(seats) if taken == seat]]
        backing = (members[:, :, None] == members[:, None, :]).sum(axis=2)
        best = np.where(members >= 0, backing, -1).argmax(axis=1)
        columns.append(np.take_along_axis(members, best[:, None], axis=1))
    return np.concatenate(columns, axis=1)
