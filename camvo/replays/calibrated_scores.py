"""The calibrated scores that a replay would have shown beside the policy's own."""

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
    """The score of every label by :mod:`camvo.scores.scorer`, fitted to the rounds before it; shape (n,).

    A score decides nothing, so it can be computed afterwards. NaN where there is no label.

    Args:
        trace: what a policy did.
        table: what it was replayed on.
        human: whether a human labels each item after it was decided, shape (n,). Nobody, when left out.
        growth: how much more rounds or human labels there are when the scorer is fitted again.
    """
    scores = np.full(len(trace.labels), np.nan)
    arms, count = tuple(table.prices), len(table.labels)
    (items,) = np.nonzero(trace.labels >= 0)
    votes, decided = np.where(trace.asked, table.votes, -1)[items], trace.labels[items]
    taught = np.zeros(len(items), dtype=np.bool_) if human is None else human[items]
    seen = _seen(votes, decided, np.where(taught, table.truth[items], -1), arms, table.labels)
    ends = [*_fits(taught, growth), len(items)]
    for start, end in pairwise([0, *ends]):
        (confirmed,) = np.nonzero(taught[:start])
        kept = sorted({*range(max(0, start - MOST_ROUNDS), start), *confirmed[-MOST_CONFIRMED:].tolist()})
        fitted = scorer.fit_scorer([seen[at] for at in kept], arms, table.labels)
        chances = fitted.panel.chances(votes[start:end], count)
        shown = fitted.calibration(chances[np.arange(end - start), decided[start:end]])
        these = items[start:end]
        scores[these] = scorer.blend_scores(shown, trace.scores[these], trace.trust[these])
    return scores


def _seen(
    votes: NDArray[np.int64],
    decided: NDArray[np.int64],
    truth: NDArray[np.int64],
    arms: tuple[str, ...],
    labels: tuple[str, ...],
) -> list[FinishedRound]:
    """The rounds as the scorer reads them; ``truth`` is −1 where no human said it."""
    rows = zip(votes.tolist(), decided.tolist(), truth.tolist(), strict=True)
    return [
        FinishedRound(
            {arm: labels[vote] for arm, vote in zip(arms, row, strict=True) if vote >= 0},
            labels[label],
            float(label == right) if right >= 0 else None,
        )
        for row, label, right in rows
    ]


def _fits(taught: NDArray[np.bool_], growth: float) -> Iterator[int]:
    """After how many rounds the scorer is fitted again."""
    rounds = confirmed = 0
    for now, labels in enumerate(np.cumsum(taught)[:-1].tolist(), start=1):
        if now - rounds > growth * rounds or labels - confirmed > growth * confirmed:
            rounds, confirmed = now, labels
            yield now
