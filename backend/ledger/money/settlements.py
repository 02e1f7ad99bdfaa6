"""Settlements: answers that were paid for, on their way into the ledger.

While the database is down they wait in memory and are tried again, and no new call may start: its answer
could not be stored either. A file beside the ledger would not help, as the disk may be what is full.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import structlog
from sqlalchemy import Connection

from backend.errors import LedgerError
from backend.ledger.database.writer import Writer
from backend.telemetry import metrics

_log = structlog.get_logger(__name__)


class Settlements:
    """The settlements of one process. Used from one event loop only.

    Args:
        writer: writes to the ledger.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._under_way: set[object] = set()
        self._waiting: set[object] = set()
        self._none_waits, self._none_under_way = asyncio.Event(), asyncio.Event()
        self._none_waits.set()
        self._none_under_way.set()

    @property
    def waiting(self) -> int:
        """How many paid answers wait in memory because the database is down."""
        return len(self._waiting)

    async def settle(self, write: Callable[[Connection], None], *, paid: bool) -> None:
        """Run a settlement in a write transaction, however long the database is down.

        Args:
            write: settles one call; must be safe to run twice.
            paid: whether the call cost something; nothing waits for the settlement of one that did not.

        Raises:
            LedgerError: the ledger cannot store it, for a reason that does not pass.
        """
        if not paid:
            return await self._writer.persist(write)
        settlement = object()
        self._under_way.add(settlement)
        self._none_under_way.clear()
        try:
            await self._writer.persist(write, on_outage=lambda: self._wait(settlement))
        finally:
            self._end(settlement)

    async def none_waits(self, patience: float) -> None:
        """Return once no settlement waits for the database.

        Args:
            patience: seconds.

        Raises:
            LedgerError: some still wait after ``patience``.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(patience, 0.0)):
                await self._none_waits.wait()
        self.check()

    def check(self) -> None:
        """Return if no settlement waits for the database at this moment.

        Raises:
            LedgerError: some wait, so that the answer of another call could not be stored either.
        """
        if self._waiting:
            raise LedgerError(
                f"no call may start: {len(self._waiting)} paid answers wait to be stored",
                fix="look for ledger_down in the log",
                temporary=True,
            )

    async def finish(self, patience: float) -> None:
        """Wait for the settlements under way, at most ``patience`` seconds, before the process ends."""
        try:
            async with asyncio.timeout(patience):
                await self._none_under_way.wait()
        except TimeoutError:
            _log.error(
                "paid_answers_lost",
                answers=len(self._under_way),
                fix="the database did not come back in time; the money reserved for them counts as spent",
            )

    def _wait(self, settlement: object) -> None:
        self._waiting.add(settlement)
        self._none_waits.clear()
        metrics.unsettled_answers.inc()

    def _end(self, settlement: object) -> None:
        self._under_way.discard(settlement)
        if settlement in self._waiting:
            self._waiting.discard(settlement)
            metrics.unsettled_answers.dec()
        if not self._waiting:
            self._none_waits.set()
        if not self._under_way:
            self._none_under_way.set()
