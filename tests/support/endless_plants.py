"""Computations that never end, in the threads that ``CAMVO_TEST_PLANTS`` names; ``redact`` brings them in."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from backend.server.runtime import Runtime


def redact(text: str) -> list[tuple[int, int, str]]:
    return []


def _spin(*_: object) -> None:
    while True:
        pass


def _plant(runtime: Runtime, thread: str) -> None:
    process = runtime._process
    pools = {
        "recounter": runtime._counting,
        "ledger-reader": process.access.readers,
        "camvo-embedder": process.embedder._executor,
        "camvo-worker": process.thread.loop.workers,
    }
    if thread in pools:
        pools[thread].submit(_spin)
    elif thread == "camvo-loop":
        process.thread.call_soon(_spin)
    else:
        process.writer.submit(_spin)


def _plant_in_every_runtime() -> None:
    from backend.server.runtime import Runtime  # noqa: PLC0415 - heavy, and not for the master

    start = Runtime.__init__

    def start_with_plants(self: Runtime, *arguments: Any, **options: Any) -> None:
        start(self, *arguments, **options)
        for thread in os.environ["CAMVO_TEST_PLANTS"].split():
            _plant(self, thread)

    Runtime.__init__ = start_with_plants  # type: ignore[method-assign]


os.register_at_fork(after_in_child=_plant_in_every_runtime)  # imported by the master: its child is a worker
