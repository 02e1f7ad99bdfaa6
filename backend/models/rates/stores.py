"""Where the controllers of rates live: in the ledger for all of its processes, or in one process."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from sqlalchemy import Connection

from backend.ledger import Writer
from backend.ledger.calls import model_rates
from backend.ledger.database import clock as ledger_clock
from backend.models.rates.controller import WINDOW, RateController
from backend.models.rates.messages import Lease, RateReport
from backend.settings import ModelSettings

Clock = Callable[[], float]


class RateStore(Protocol):
    """Exchanges reports for leases."""

    window: float
    """Seconds for which providers count."""

    async def exchange(self, model: ModelSettings, report: RateReport) -> Lease:
        """Take a process's report about a model, and return what the process may send next.

        Raises:
            LedgerError: the database failed.
        """
        ...


class ProcessRates:
    """Rates of one process that has no ledger.

    Args:
        clock: monotonic seconds.
        window: seconds for which providers count.
    """

    def __init__(self, clock: Clock, window: float = WINDOW) -> None:
        self._clock, self.window = clock, window
        self._controllers: dict[str, RateController] = {}

    async def exchange(self, model: ModelSettings, report: RateReport) -> Lease:
        """See :class:`RateStore`."""
        if model.name not in self._controllers:
            self._controllers[model.name] = RateController(model.rpm, model.tpm, window=self.window)
        return self._controllers[model.name].exchange(self._clock(), report)


class LedgerRates:
    """Rates that all processes of a ledger share.

    Args:
        writer: writes to the ledger.
        now: returns the time in unix seconds, in a transaction; by default the database's.
        window: seconds for which providers count.
    """

    def __init__(
        self,
        writer: Writer,
        now: Callable[[Connection], float] = ledger_clock.now,
        window: float = WINDOW,
    ) -> None:
        self._writer, self._now, self.window = writer, now, window
        self._owner = uuid.uuid4().hex

    async def exchange(self, model: ModelSettings, report: RateReport) -> Lease:
        """See :class:`RateStore`. It takes one transaction."""
        report = replace(report, owner=self._owner)
        return await self._writer.run(functools.partial(self._exchange, model, report))

    def _exchange(self, model: ModelSettings, report: RateReport, connection: Connection) -> Lease:
        now = self._now(connection)
        state = model_rates.read(connection, model.name)
        controller = RateController(model.rpm, model.tpm, window=self.window, state=state)
        lease = controller.exchange(now, report)
        model_rates.store(connection, model.name, controller.dump(), now)
        return lease
