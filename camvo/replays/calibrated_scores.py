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
from camvo.student.taught_texts import STUDENT
from camvo.typing import Array


def calibrated_scores(
    trace: Trace, table: VotesTable, human: NDArray[np.bool_] | None = None, *, growth: float = GROWTH
) -> Array:
    """Score every decision with a scorer fitted to earlier rounds (:mod:`camvo.scores.scorer`).

    These scores influence no decision, so they can be computed after the replay.

    Args:
        trace: the decisions of the replay, and when humans labelled them.
        table: the items, in the order of the trace.
        human: whether a human labels each item right after its decision, shape (n,), in the place of
            ``trace.labelled_at``.
        growth: the relative growth of the number of rounds, or of human labels, after which the scorer is
            fitted again.

    Returns:
        The scores in [0, 1], shape (n,); NaN where the trace has no label.
    """
    scores = np.full(len(trace.labels), np.nan)
    arms, count = tuple(table.prices), len(table.labels)
    (items,) = np.nonzero(trace.labels >= 0)
    votes, decided = np.where(trace.asked, table.votes, -1)[items], trace.labels[items]
    if (trace.student >= 0).any():
        arms, votes = (*arms, STUDENT), np.column_stack((votes, trace.student[items]))
    at = trace.labelled_at if human is None else np.where(human, np.arange(len(human)) + 1, 0)
    known_from = _known_from(at[items], items)
    unlabelled = _finished_rounds(votes, decided, np.full(len(items), -1), arms, table.labels)
    labelled = _finished_rounds(votes, decided, table.truth[items], arms, table.labels)
    ends = [*_fit_points(known_from, growth), len(items)]
    for start, end in pairwise([0, *ends]):
        (confirmed,) = np.nonzero(known_from <= start)
        latest = sorted({*range(max(0, start - MOST_ROUNDS), start), *confirmed[-MOST_CONFIRMED:].tolist()})
        known = set(confirmed.tolist())
        rounds = [(labelled if position in known else unlabelled)[position] for position in latest]
        fitted = scorer.fit_scorer(rounds, arms, table.labels)
        chances = fitted.panel.chances(votes[start:end], count)
        calibrated = fitted.calibration(chances[np.arange(end - start), decided[start:end]])
        scored = items[start:end]
        scores[scored] = scorer.blend_scores(calibrated, trace.scores[scored], trace.trust[scored])
    return scores


def _known_from(labelled_at: NDArray[np.int64], items: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each of n decided items, after how many of them its human label is known; n + 1 for never."""
    known = np.searchsorted(items, labelled_at, side="left")
    return np.where(labelled_at > 0, np.maximum(known, np.arange(len(items)) + 1), len(items) + 1)


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


def _fit_points(known_from: NDArray[np.int64], growth: float) -> Iterator[int]:
    """Yield the numbers of rounds after which the scorer is fitted again."""
    fitted_rounds = fitted_labels = 0
    counts = np.searchsorted(np.sort(known_from), np.arange(1, len(known_from)), side="right")
    for rounds, labels in enumerate(counts.tolist(), start=1):
        if rounds - fitted_rounds > growth * fitted_rounds or labels - fitted_labels > growth * fitted_labels:
            fitted_rounds, fitted_labels = rounds, labels
            yield rounds
