"""This process's scorers: fitted to the ledger, and again when it has grown, beside the predictions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from backend.learning.fits import PAUSE, Fits
from backend.learning.states import StateKey
from backend.ledger import Ledger, scorer_data
from camvo.scores import scorer
from camvo.scores.scorer import GROWTH, Scorer

_MOST = 256
"""Scorers kept in memory: each takes a few kilobytes."""


@dataclass(frozen=True, slots=True)
class _Kept:
    scorer: Scorer
    rounds: int
    confirmed: int
    looked_at: float


class Scores:
    """The scorers, by question. Used from one event loop only; ``readers`` read the ledger and fit."""

    def __init__(self, ledger: Ledger, readers: Executor, *, clock: Callable[[], float]) -> None:
        self._ledger, self._clock = ledger, clock
        self._fits: Fits[_Kept] = Fits(readers, most=_MOST, failure="scores_not_fitted")

    async def current(self, key: StateKey, arms: Sequence[str], labels: Sequence[str]) -> Scorer:
        """The scorer of a question, fitted already unless it is the first use or a model has joined.

        What has come to the ledger since is learnt in the background, for the predictions after this one.
        """
        kept = self._fits.latest(key)
        if kept is None or not set(arms) <= set(kept.scorer.panel.arms):
            kept = await asyncio.shield(self._fits.start(key, lambda: self._read(key, arms, labels, None)))
        elif self._clock() - kept.looked_at >= PAUSE:
            self._fits.start(key, lambda: self._read(key, arms, labels, kept))
        return kept.scorer

    def _read(self, key: StateKey, arms: Sequence[str], labels: Sequence[str], kept: _Kept | None) -> _Kept:
        now = self._clock()
        with self._ledger.read() as connection:
            rounds, confirmed = scorer_data.count_rounds(connection, key.project, key.control, key.epoch)
            if kept is not None and not (_grown(rounds, kept.rounds) or _grown(confirmed, kept.confirmed)):
                return _Kept(kept.scorer, kept.rounds, kept.confirmed, now)
            found = scorer_data.latest_rounds(connection, key.project, key.control, key.epoch)
        everyone = sorted({*arms, *(arm for one in found for arm in one.votes)})
        return _Kept(scorer.fit_scorer(found, everyone, labels), rounds, confirmed, now)


def _grown(now: int, before: int) -> bool:
    return abs(now - before) > GROWTH * before
