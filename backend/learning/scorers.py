"""This process's scorers: fitted to the ledger, and fitted again in the background when it has grown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from backend.learning.fit_cache import PAUSE, FitCache
from backend.learning.states import StateKey
from backend.ledger import Ledger, scorer_data
from backend.ledger.database.outages import outlast
from camvo.scores import scorer
from camvo.scores.scorer import GROWTH, Scorer

_MOST = 256
"""Scorers kept in memory; each takes a few kilobytes."""


@dataclass(frozen=True, slots=True)
class _Fitted:
    scorer: Scorer
    rounds: int
    confirmed: int
    checked_at: float


class Scorers:
    """The scorers, by question. Used from one event loop only.

    Args:
        ledger: where the rounds are read.
        readers: the threads that read the ledger and fit.
        clock: returns unix seconds.
    """

    def __init__(self, ledger: Ledger, readers: Executor, *, clock: Callable[[], float]) -> None:
        self._ledger, self._clock = ledger, clock
        self._cache: FitCache[_Fitted] = FitCache(readers, most=_MOST, failure="scores_not_fitted")

    async def current(self, key: StateKey, arms: Sequence[str], labels: Sequence[str]) -> Scorer:
        """The latest scorer of a question; awaits a fit only for the first one, or if a model is new to it.

        Later rounds are learnt in the background, for the predictions after this one.
        """
        latest = self._cache.latest(key)
        if latest is None or not set(arms) <= set(latest.scorer.panel.arms):
            latest = await outlast(
                lambda: asyncio.shield(self._cache.start(key, lambda: self._fit(key, arms, labels, None)))
            )
        elif self._clock() - latest.checked_at >= PAUSE:
            self._cache.start(key, lambda: self._fit(key, arms, labels, latest))
        return latest.scorer

    def _fit(
        self, key: StateKey, arms: Sequence[str], labels: Sequence[str], latest: _Fitted | None
    ) -> _Fitted:
        now = self._clock()
        with self._ledger.read() as connection:
            rounds, confirmed = scorer_data.count_rounds(connection, key.project, key.control, key.epoch)
            if latest is not None and not (
                _grown(rounds, latest.rounds) or _grown(confirmed, latest.confirmed)
            ):
                return _Fitted(latest.scorer, latest.rounds, latest.confirmed, now)
            newest = scorer_data.latest_rounds(connection, key.project, key.control, key.epoch)
        all_arms = sorted({*arms, *(arm for round_ in newest for arm in round_.votes)})
        return _Fitted(scorer.fit_scorer(newest, all_arms, labels), rounds, confirmed, now)


def _grown(now: int, before: int) -> bool:
    return abs(now - before) > GROWTH * before
