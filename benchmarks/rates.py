"""Measure how much of a provider's quota two processes use, and how many calls are refused and lost.

    OMP_NUM_THREADS=1 python benchmarks/rates.py [--kind trailing] [--quota 600] [--windows 3]

Starts a local OpenAI-compatible server that accepts a quota per window, and answers HTTP 429 beyond it. Each
process has its own pool, and both share one SQLite ledger. They call without a pause. After --windows windows
the quota falls to a third; after as many again it is back. A window is a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backend.errors import ModelError
from backend.ledger import Ledger, Writer
from backend.models import Pool
from backend.models.rates.controller import LedgerRates
from backend.settings import ModelSettings
from backend.testing import OpenAIServer, Reply

PROCESSES = 2
WORKERS = 32
"""Calls that each process wants to make at once."""

WINDOW = 60.0
"""Seconds for which providers count."""

PATIENCE = 120.0
LATENCY = 0.2
"""Seconds that an answer takes."""


@dataclass
class ScriptedQuota:
    """A provider that accepts a quota of requests per window, and counts what it accepted and refused."""

    kind: str
    quota: float
    accepted: Counter[int] = field(default_factory=Counter)
    refused: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._times: deque[float] = deque()
        self._level, self._level_at = self.quota, time.monotonic()
        self.began = time.monotonic()

    def reply(self, body: dict[str, Any]) -> Reply:
        """Answer after the latency, or refuse at once."""
        with self._lock:
            now = time.monotonic()
            number = int((now - self.began) / WINDOW)
            accepts = {"fixed": self._fixed, "trailing": self._trailing, "bucket": self._bucket}[self.kind](
                now
            )
            (self.accepted if accepts else self.refused)[number] += 1
        if not accepts:
            return Reply.fails(429)
        time.sleep(LATENCY)
        return Reply.says("A")

    def _fixed(self, now: float) -> bool:
        return self.accepted[int((now - self.began) / WINDOW)] < self.quota

    def _trailing(self, now: float) -> bool:
        while self._times and self._times[0] <= now - WINDOW:
            self._times.popleft()
        if len(self._times) >= self.quota:
            return False
        self._times.append(now)
        return True

    def _bucket(self, now: float) -> bool:
        refilled = self._level + self.quota * (now - self._level_at) / WINDOW
        self._level, self._level_at = min(refilled, self.quota), now
        if self._level < 1.0:
            return False
        self._level -= 1.0
        return True


def call_for_ever(url: str, database: str, seconds: float, outcomes: Any) -> None:
    """Call from one process, and put how many calls were answered and which errors there were."""
    writer = Writer(Ledger(database))
    rates = LedgerRates(writer)
    model = ModelSettings(
        name="test", model="openai/test", input_price=0, output_price=0, parameters={"api_base": url}
    )
    pool = Pool([model], rates=rates)
    counts: Counter[str] = Counter()

    async def worker(until: float) -> None:
        while time.monotonic() < until:
            try:
                await pool["test"].attempt([{"role": "user", "content": "A text."}], None, PATIENCE)
                counts["answered"] += 1
            except ModelError as error:
                counts[error.code] += 1

    async def main() -> None:
        until = time.monotonic() + seconds
        await asyncio.gather(*(worker(until) for _ in range(WORKERS)))

    asyncio.run(main())
    writer.close()
    outcomes.put(counts)


def print_windows(provider: ScriptedQuota, first: int, last: int, quota: float, name: str) -> None:
    """Print the share of the quota that was used, and of the calls that were refused, in some windows."""
    accepted = sum(provider.accepted[number] for number in range(first, last))
    refused = sum(provider.refused[number] for number in range(first, last))
    used, calls = accepted / quota / max(last - first, 1), max(accepted + refused, 1)
    print(f"{name:34} used {used:6.1%} of the quota, refused {refused:4} = {refused / calls:5.2%}")


def run(kind: str, quota: float, windows: int) -> None:
    """Measure one kind of provider."""
    provider = ScriptedQuota(kind, quota)
    database = f"sqlite:///{Path(tempfile.mkdtemp(prefix='camvo-rates-')) / 'ledger.sqlite'}"
    ledger = Ledger(database)
    ledger.migrate()
    ledger.close()
    context = multiprocessing.get_context("spawn")
    outcomes = context.Queue()
    with OpenAIServer(provider.reply) as server:
        arguments = (server.url, database, 3 * windows * WINDOW, outcomes)
        processes = [context.Process(target=call_for_ever, args=arguments) for _ in range(PROCESSES)]
        for process in processes:
            process.start()
        server.wait_for(1, 120)
        provider.began = time.monotonic()
        provider.accepted.clear()
        provider.refused.clear()
        steps: list[tuple[int, Callable[[], None]]] = [
            (windows, lambda: setattr(provider, "quota", quota / 3)),
            (2 * windows, lambda: setattr(provider, "quota", quota)),
        ]
        for number, change in steps:
            time.sleep(max(0.0, provider.began + number * WINDOW - time.monotonic()))
            change()
        total: Counter[str] = sum((outcomes.get() for _ in processes), Counter())
        for process in processes:
            process.join()
    print(f"{kind}: {quota:g} per minute, then a third, then {quota:g} again")
    print_windows(provider, 0, 1, quota, "first window")
    print_windows(provider, 1, windows, quota, "from the second window on")
    print_windows(provider, windows, windows + 2, quota / 3, "two windows after the fall")
    print_windows(provider, windows + 2, 2 * windows, quota / 3, "from the third window after it on")
    print_windows(provider, 2 * windows, 3 * windows, quota, "after the rise")
    lost = {code: count for code, count in total.items() if code != "answered"}
    print(f"{total['answered']} calls answered, lost: {lost or 0}\n")


def main() -> None:
    """Measure each kind that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kind", choices=["fixed", "trailing", "bucket"], action="append")
    parser.add_argument("--quota", type=float, default=600.0)
    parser.add_argument("--windows", type=int, default=3)
    options = parser.parse_args()
    for kind in options.kind or ["fixed", "trailing", "bucket"]:
        run(kind, options.quota, options.windows)


if __name__ == "__main__":
    main()
