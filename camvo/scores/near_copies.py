"""Near-copies: models that agree too often to be independent opinions, and therefore count as one vote.

In one real vote table two models agree on 99.9% of the items. As two votes they outvote a better model and
make any posterior overconfident. Two models that disagree on at most 1% of the items may be merged, because
the vote of one is the vote of both up to that 1%. This criterion alone would merge all models on an easy
question. A pair must therefore also disagree ten times more rarely than either of them disagrees with any
third model. Without a third model, or if all models agree equally often, there are no near-copies.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from camvo.numerics.proportion import upper_bound
from camvo.typing import Array

APART = 0.01
"""Near-copies disagree on at most this share of the items, with confidence :data:`LEVEL`."""

RATIO = 0.1
"""Near-copies disagree at most this many times as often as either disagrees with any third model."""

LEVEL = 0.95
"""The confidence that a pair disagrees rarely: some 300 common rounds without a difference (70 at ½)."""


def near_copies(shared: Array, apart: Array, level: float = LEVEL) -> tuple[int, ...]:
    """Assign a seat to each model; near-copies share one.

    Args:
        shared: in how many rounds both models of each pair voted, shape (K, K).
        apart: in how many of these their votes differed, shape (K, K).
        level: the confidence that a pair disagrees rarely, in (0, 1).

    Returns:
        The seat of each model, shape (K,): the position of the first of its copies, or its own position if
        it has none. Copies of copies are copies.
    """
    arms = len(shared)
    rate = np.where(shared > 0.0, apart / np.maximum(shared, 1.0), 1.0)
    most = upper_bound(apart, shared, level)
    close = (shared > 0.0) & (most <= APART)
    seats = list(range(arms))
    for left in range(arms):
        for right in range(left + 1, arms):
            third = ~(close[left] | close[right])
            third[[left, right]] = False
            if not (close[left, right] and third.any()):
                continue
            if rate[left, right] <= RATIO * rate[[left, right]][:, third].min():
                first, second = sorted((seats[left], seats[right]))
                seats = [first if seat == second else seat for seat in seats]
    return tuple(seats)


def near_copies_in(votes: NDArray[np.int64], level: float = LEVEL) -> tuple[int, ...]:
    """Assign seats by :func:`near_copies` from votes, shape (n, K), −1 for no vote."""
    voted = votes >= 0
    shared = voted.astype(np.float64).T @ voted
    apart = np.zeros_like(shared)
    for arm in range(votes.shape[1]):
        apart[arm] = (voted & voted[:, [arm]] & (votes != votes[:, [arm]])).sum(axis=0)
    return near_copies(shared, apart, level)


def merge_copies(votes: NDArray[np.int64], seats: Sequence[int]) -> NDArray[np.int64]:
    """Merge the votes of near-copies into one vote per seat.

    If copies disagree, the label with most votes among them counts; ties go to the first copy's label.

    Args:
        votes: label positions, shape (n, K), −1 for no vote.
        seats: the seat of each model, shape (K,).

    Returns:
        The votes of the S seats, shape (n, S), seats ascending; −1 for no vote.
    """
    columns = []
    for seat in sorted(set(seats)):
        members = votes[:, [position for position, taken in enumerate(seats) if taken == seat]]
        backing = (members[:, :, None] == members[:, None, :]).sum(axis=2)
        best = np.where(members >= 0, backing, -1).argmax(axis=1)
        columns.append(np.take_along_axis(members, best[:, None], axis=1))
    return np.concatenate(columns, axis=1)
