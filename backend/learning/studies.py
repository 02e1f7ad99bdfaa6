"""This process's studies: what the rounds that are kept whole say, worked out beside the predictions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from backend.learning.fits import PAUSE, Fits
from backend.learning.states import COPIES, StateKey
from camvo.policies.background_fits import Material, Study


@dataclass(frozen=True, slots=True)
class _Kept:
    material: Material
    study: Study
    made_at: float


class Studies:
    """The studies, by question. Used from one event loop only; ``workers`` make them."""

    def __init__(self, workers: Executor, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._fits: Fits[_Kept] = Fits(workers, most=COPIES, failure="not_studied")

    async def current(self, key: StateKey, material: Material) -> Study:
        """A study of a question, there already unless it is the first one of its kind.

        Rounds and labels that have come since are studied in the background, for the plans after this one,
        and no sooner than ten seconds later: while people label, every plan finds something new. Prices are
        those of the task that the study was made for: tasks of other lengths are stopped alike.
        """

        def study() -> _Kept:
            return _Kept(material, material.study(), self._clock())

        kept = self._fits.latest(key, material.kind)
        if kept is None:
            kept = await asyncio.shield(self._fits.start(key, study, material.kind))
        elif kept.material.basis != material.basis and self._clock() - kept.made_at >= PAUSE:
            self._fits.start(key, study, material.kind)
        return kept.study
