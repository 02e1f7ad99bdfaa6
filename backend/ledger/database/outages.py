"""Outages: the database is down, full or locked. What failed is tried again until it is back."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import TypeVar

from sqlalchemy import Connection

from backend.errors import LedgerError
from backend.ledger.database.ledger import Ledger

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
"""Seconds between two tries; the pause doubles from the first to the longest."""

_T = TypeVar("_T")


def is_temporary(error: BaseException) -> bool:
    """Whether the error is an outage, so that the same may succeed later."""
    return isinstance(error, LedgerError) and error.temporary


async def outlast(
    step: Callable[[], Awaitable[_T]],
    *,
    patience: float = math.inf,
    on_outage: Callable[[], object] = lambda: None,
) -> _T:
    """Run a step, and run it again while the database is down.

    Args:
        step: what to run; it must be safe to run twice.
        patience: seconds after which a failure is raised that may pass.
        on_outage: called after the first such failure.

    Raises:
        LedgerError: the failure does not pass, or not within ``patience``.
    """
    until, pause = time.monotonic() + patience, 0.0
    while True:
        try:
            return await step()
        except LedgerError as error:
            if not error.temporary or time.monotonic() >= until:
                raise
        if pause == 0.0:
            on_outage()
        pause = min(2 * pause or _FIRST_PAUSE, _LONGEST_PAUSE)
        await asyncio.sleep(min(pause * random.uniform(0.5, 1.0), max(until - time.monotonic(), 0.0)))  # noqa: S311 - jitter


async def read(ledger: Ledger, readers: Executor, function: Callable[[Connection], _T]) -> _T:
    """Run a function in a read transaction in another thread, and again while the database is down.

    Args:
        ledger: the migrated ledger.
        readers: the threads.
        function: reads from the connection.
    """

    def attempt() -> _T:
        with ledger.read() as connection:
            return function(connection)

    return await outlast(lambda: asyncio.get_running_loop().run_in_executor(readers, attempt))
