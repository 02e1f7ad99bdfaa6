"""Split the counts of vote patterns into folds, so that what is chosen on some rounds is tested on others."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from camvo.state.vote_patterns import Signature
from camvo.typing import Array


def fold_counts(patterns: Mapping[Signature, int], folds: int) -> Array:
    """How many rounds of each pattern are in each fold.

    Patterns are counted and rounds are not kept, so a hash of the pattern and of j puts the j-th round with
    this pattern into its fold. Rounds with the same pattern are exchangeable. The folds are therefore
    distributed as if every round had been put into one at random. A round that comes later changes the fold
    of no earlier one.

    Args:
        patterns: pattern → its number of rounds, at least 0.
        folds: F, the number of folds, from 2 to 16.

    Returns:
        The counts, shape (F, n), in the order of ``patterns``; they sum to the number of rounds.

    >>> import numpy as np
    >>> counts = fold_counts({(0, 0, 1): 60, (0, 0, 0): 3}, folds=2)
    >>> counts.shape, counts.sum(axis=0).tolist()
    ((2, 2), [60.0, 3.0])
    """
    columns = []
    for groups, count in patterns.items():
        stream = hashlib.shake_128(repr(groups).encode()).digest(4 * count)
        columns.append(np.bincount(np.frombuffer(stream, dtype="<u4") % folds, minlength=folds))
    return np.array(columns, dtype=np.float64).reshape(len(columns), folds).T
