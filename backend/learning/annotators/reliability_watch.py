"""Annotators' reliabilities are fitted again in the background, once enough labels are new."""

from __future__ import annotations

import asyncio

import structlog

from backend.learning.annotators.reliability_fits import ReliabilityFits, is_due
from camvo.errors import CamvoError

_log = structlog.get_logger(__name__)


class ReliabilityWatch:
    """Fits projects whose labels have changed enough. Used from one event loop only.

    Args:
        fits: fits and applies the reliabilities of one project.
    """

    def __init__(self, fits: ReliabilityFits) -> None:
        self._fits = fits
        self._changed: set[str] = set()
        self._looked_at: dict[str, int] = {}
        self._woken = asyncio.Event()

    def wake(self, project: str) -> None:
        """Look at a project, since an annotation was made, changed or deleted."""
        self._changed.add(project)
        self._woken.set()

    async def run(self) -> None:
        """Apply what an earlier process left, then fit projects until cancelled."""
        try:
            for project in await self._fits.unapplied():
                await self._fits.apply(project)
        except CamvoError as error:
            _log.error("reliabilities_not_applied", code=error.code, reason=str(error))
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._changed:
                await self._look_at(self._changed.pop())

    async def _look_at(self, project: str) -> None:
        try:
            annotations, fitted_on = await self._fits.annotations(project)
        except CamvoError as error:
            _log.error("annotations_not_counted", project=project, code=error.code, reason=str(error))
            return
        if is_due(annotations, self._looked_at.get(project, fitted_on)):
            self._looked_at[project] = annotations
            await self._fits.fit(project)
