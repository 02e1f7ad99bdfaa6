"""An event loop whose clock jumps to the next timer, so that minutes of simulation take no time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class _Deaf(selectors.SelectSelector):
    """Asks the system for nothing, which would take longer than most turns of the loop."""

    def select(self, timeout: float | None = None) -> list[Any]:
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop that never sleeps. It must not wait for files, sockets or threads."""

    def __init__(self) -> None:
        super().__init__(_Deaf())
        self._now = 1_000_000.0

    def time(self) -> float:
        """Return the simulated seconds."""
        return self._now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self._now = max(self._now, self._scheduled[0].when())  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


def run_in_virtual_time(main: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine on a loop with simulated time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
