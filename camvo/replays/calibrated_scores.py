"""The calibrated scores that the server would have shown for the decisions of a replay."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from camvo.replays.replay import Trace
from camvo.replays.votes_table import VotesTable
from camvo.scores import scorer
from camvo.scores.scorer import GROWTH, MOST_CONFIRMED, MOST_ROUNDS, FinishedRound
from camvo.typing import Array


def calibrated_scores(
    trace: Trace, table: VotesTable, human: NDArray[np.bool_] | None = None, *, growth: float = GROWTH
) -> Array:
    """Score every decision with a scorer fitted to earlier rounds (:mod:`camvo.scores.scorer`).

    These scores influence no decision, so they can be computed after the replay.

    Args:
        trace: the decisions of the replay.
        table: the items, in the order of the trace.
        human: whether a human labels each item after its decision, shape (n,). By default no item has a
            human label.
        growth: the relative growth of the number of rounds, or of human labels, after which the scorer is
            fitted again.

    Returns:
        The scores in [0, 1], shape (n,); NaN where the trace has no label.
    """
    scores = np.full(len(trace.labels), np.nan)
    arms, count = tuple(table.prices), len(table.labels)
    (items,) = np.nonzero(trace.labels >= 0)
    votes, decided = np.where(trace.asked, table.votes, -1)[items], trace.labels[items]
    labelled = np.zeros(len(items), dtype=np.bool_) if human is None else human[items]
    rounds = _finished_rounds(votes, decided, np.where(labelled, table.truth[items], -1), arms, table.labels)
    ends = [*_fit_points(labelled, growth), len(items)]
    for start, end in pairwise([0, *ends]):
        (confirmed,) = np.nonzero(labelled[:start])
        latest = sorted({*range(max(0, start - MOST_ROUNDS), start), *confirmed[-MOST_CONFIRMED:].tolist()})
        fitted = scorer.fit_scorer([rounds[position] for position in latest], arms, table.labels)
        chances = fitted.panel.chances(votes[start:end], count)
        calibrated = fitted.calibration(chances[np.arange(end - start), decided[start:end]])
        scored = items[start:end]
        scores[scored] = scorer.blend_scores(calibrated, trace.scores[scored], trace.trust[scored])
    return scores


def _finished_rounds(
    votes: NDArray[np.int64],
    decided: NDArray[np.int64],
    truth: NDArray[np.int64],
    arms: tuple[str, ...],
    labels: tuple[str, ...],
) -> list[FinishedRound]:
    """Convert rows of label positions to rounds of the scorer; ``truth`` is −1 without a human label."""
    rows = zip(votes.tolist(), decided.tolist(), truth.tolist(), strict=True)
    return [
        FinishedRound(
            {arm: labels[vote] for arm, vote in zip(arms, row, strict=True) if vote >= 0},
            labels[label],
            float(label == right) if right >= 0 else None,
        )
        for row, label, right in rows
    ]


def _fit_points(labelled: NDArray[np.bool_], growth: float) -> Iterator[int]:
    """Yield the numbers of rounds after which the scorer is fitted again."""
    fitted_rounds = fitted_labels = 0
    for rounds, labels in enumerate(np.cumsum(labelled)[:-1].tolist(), start=1):
        if rounds - fitted_rounds > growth * fitted_rounds or labels - fitted_labels > growth * fitted_labels:
            fitted_rounds, fitted_labels = rounds, labels
            yield rounds
