"""Large deletions: the records of deleted tasks are forgotten in the background, in small transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog
from sqlalchemy import Connection

from backend.learning.actions import forget_next
from backend.ledger import Writer
from backend.settings import Settings
from camvo.errors import CamvoError

_PAUSE = 60.0
"""Seconds after which another process's unfinished deletion is looked for."""

_log = structlog.get_logger(__name__)


class Deletions:
    """Forgets what is left to forget, also after a restart. Used from one event loop only.

    Args:
        writer: writes to the ledger.
        settings: the server's settings.
        clock: returns unix seconds.
    """

    def __init__(self, writer: Writer, settings: Settings, clock: Callable[[], float]) -> None:
        self._writer, self._settings, self._clock = writer, settings, clock
        self._marked = asyncio.Event()

    def wake(self) -> None:
        """Begin at once, since tasks were marked."""
        self._marked.set()

    async def run(self) -> None:
        """Forget marked tasks until cancelled."""
        while True:
            self._marked.clear()
            try:
                while await self._writer.persist(self._forget):
                    pass
            except CamvoError as error:
                _log.error("deleted_tasks_not_forgotten", code=error.code, reason=str(error))
            try:
                async with asyncio.timeout(_PAUSE):
                    await self._marked.wait()
            except TimeoutError:
                continue

    def _forget(self, connection: Connection) -> bool:
        return forget_next(connection, self._settings, self._clock())
