"""How a run went on the way: accuracy, agreement and cost of every 500 rounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from camvo.replays import measures
from camvo.replays.replay import Trace
from camvo.replays.votes_table import VotesTable

BLOCK = 500
"""Rounds of a block; the last block of a run may have fewer."""


def series_of(table: VotesTable, trace: Trace, full: NDArray[np.int64]) -> dict[str, Sequence[float | None]]:
    """Measure each block of a run by itself.

    Args:
        table: the items, in the order of the trace.
        trace: the decisions.
        full: the labels of the full vote, shape (n,).

    Returns:
        ``rounds``, the rounds up to the end of each block, and for each block ``accuracy``, ``agreement`` and
        ``cost``, as a row of the JSON defines them; ``None`` where nothing is known.
    """
    n = len(trace.labels)
    blocks = [slice(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK)]
    return {
        "rounds": [block.stop for block in blocks],
        "accuracy": [measures.accuracy(trace.labels[block], table.truth[block]) for block in blocks],
        "agreement": [measures.full_vote_agreement(trace.labels[block], full[block]) for block in blocks],
        "cost": [float(trace.costs[block].mean()) for block in blocks],
    }
