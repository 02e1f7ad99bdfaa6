"""Split counted rounds into folds, so that what is chosen on some rounds is tested on others."""

from __future__ import annotations

import hashlib

import numpy as np

from camvo.joint.vote_rows import Rows
from camvo.typing import Array


def fold_counts(rows: Rows, counts: Array, folds: int) -> Array:
    """How many rounds of each vote row are in each fold.

    Rows are counted and rounds are not kept, so a hash of the row and of j puts the j-th round with this row
    into its fold. Rounds with the same row are exchangeable. The folds are therefore distributed as if every
    round had been put into one at random. A round that comes later changes the fold of no earlier one.

    Args:
        rows: distinct vote rows, shape (P, K).
        counts: the whole number of rounds of each, shape (P,).
        folds: F, the number of folds, from 2 to 16.

    Returns:
        The counts, shape (F, P); they sum to ``counts``.

    >>> import numpy as np
    >>> held = fold_counts(np.array([[0, 0, 1], [0, 0, 0]]), np.array([60.0, 3.0]), folds=2)
    >>> held.shape, held.sum(axis=0).tolist()
    ((2, 2), [60.0, 3.0])
    """
    columns = []
    for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
        stream = hashlib.shake_128(repr(row).encode()).digest(4 * int(count))
        columns.append(np.bincount(np.frombuffer(stream, dtype="<u4") % folds, minlength=folds))
    return np.array(columns, dtype=np.float64).reshape(len(columns), folds).T
