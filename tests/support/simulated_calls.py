"""Processes that call one model through gates, in simulated time, against a scripted quota."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field, replace

from quota_providers import QuotaProvider

from backend.errors import LedgerError
from backend.models.rates.answers import CallEnd, Lease, RateReport, RateStore
from backend.models.rates.controller import ProcessRates
from backend.models.rates.gate import Passage, RateGate
from backend.settings import ModelSettings

REFUSAL_SECONDS = 0.1


class SharedRates:
    """One process's view of rates that several processes share; each exchange takes 5 ms."""

    def __init__(self, rates: ProcessRates, owner: str) -> None:
        self._rates, self._owner = rates, owner
        self.exchanges = 0
        self.down = False

    async def exchange(self, model: ModelSettings, report: RateReport) -> Lease:
        """See ``RateStore``."""
        self.exchanges += 1
        await asyncio.sleep(0.005)
        if self.down:
            raise LedgerError("down")
        return await self._rates.exchange(model, replace(report, owner=self._owner))


def model_settings(**fields: object) -> ModelSettings:
    return ModelSettings.model_validate({"name": "test", "model": "openai/test", **fields})


@dataclass
class SimulatedCalls:
    """Calls of several processes, and what became of them by minute.

    Create it inside the loop with simulated time.
    """

    provider: QuotaProvider
    processes: int
    latency: float = 1.0
    settings: ModelSettings = field(default_factory=model_settings)
    accepted: Counter[int] = field(default_factory=Counter)
    refused: Counter[int] = field(default_factory=Counter)
    sent_at: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._random = random.Random(self.processes)  # noqa: S311 - latencies, not secrets
        self.began = self._loop.time()
        self.rates = ProcessRates(self._loop.time)
        self.stores = [SharedRates(self.rates, str(number)) for number in range(self.processes)]
        self.gates = [self._gate(store) for store in self.stores]

    def _gate(self, store: RateStore) -> RateGate:
        return RateGate(self.settings, store, self._loop.time)

    @property
    def minute(self) -> int:
        """The simulated minutes so far."""
        return int((self._loop.time() - self.began) // 60)

    async def call(self, gate: RateGate, tokens: float = 100.0, patience: float = 3600.0) -> None:
        """Make one call: it waits for its turn again as long as it is refused."""
        passage: Passage | None = None
        while True:
            passage = await gate.enter(tokens, patience, refused=passage)
            end = CallEnd()
            try:
                end = await self._sent(tokens)
            finally:
                gate.leave(passage, end)
            if not end.refused:
                return

    async def _sent(self, tokens: float) -> CallEnd:
        self.sent_at.append(self._loop.time())
        if not self.provider.accepts(self._loop.time()):
            self.refused[self.minute] += 1
            await asyncio.sleep(REFUSAL_SECONDS)
            return CallEnd(refused=True)
        self.accepted[self.minute] += 1
        seconds = self.latency * self._random.uniform(0.5, 1.5)
        await asyncio.sleep(seconds)
        return CallEnd(seconds=seconds, tokens=tokens)

    async def full_demand(self, minutes: float, workers: int = 48) -> None:
        """Call without a pause for some minutes, from all processes."""
        tasks = [
            asyncio.create_task(self._call_for_ever(self.gates[number % self.processes]))
            for number in range(workers)
        ]
        await asyncio.sleep(minutes * 60.0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _call_for_ever(self, gate: RateGate) -> None:
        await asyncio.sleep(self._random.random())
        while True:
            await self.call(gate)

    def used(self, first: int, last: int) -> float:
        """The share of the provider's quota that was used in some minutes."""
        return (
            sum(self.accepted[minute] for minute in range(first, last)) / self.provider.quota / (last - first)
        )

    def refused_share(self, first: int, last: int) -> float:
        """The share of the calls that were refused in some minutes."""
        refused = sum(self.refused[minute] for minute in range(first, last))
        return refused / (refused + sum(self.accepted[minute] for minute in range(first, last)))
