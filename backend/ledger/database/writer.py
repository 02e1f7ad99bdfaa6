"""Group commit: one thread per process that commits many writes in one transaction.

A durable commit takes milliseconds whatever its size. One thread therefore runs all waiting functions in one
transaction, and their callers continue once that is committed.
"""

from __future__ import annotations

import asyncio
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from itertools import islice
from typing import TypeVar

from sqlalchemy import Connection

from backend.errors import LedgerError
from backend.ledger.database.batches import WriteJob, run_batch
from backend.ledger.database.ledger import Ledger
from backend.ledger.database.outages import outlast

_BATCH = 256

_PAUSE = 0.004
"""Seconds after a transaction in which the next one gathers functions, unless one of them is urgent.

A function that arrives later does not wait. So many small writes share a commit also where commits are quick.
"""

_T = TypeVar("_T")


class Writer:
    """A daemon thread that runs functions in write transactions. Create it after a fork, not before.

    Args:
        ledger: the migrated ledger.
        batch: the most functions that share one transaction.
        give_way: called on an event loop before each write, to let more important work go first.
    """

    def __init__(
        self, ledger: Ledger, *, batch: int = _BATCH, give_way: Callable[[], object] = lambda: None
    ) -> None:
        self._ledger, self._batch, self._give_way = ledger, batch, give_way
        self._jobs: queue.SimpleQueue[WriteJob | None] = queue.SimpleQueue()
        self._urgent_arrived = False
        self._closed = False
        self._closing = threading.Lock()  # no job may be queued behind the None that ends the thread
        self._thread = threading.Thread(target=self._work, name="camvo-ledger-writer", daemon=True)
        self._thread.start()

    def submit(self, function: Callable[[Connection], _T], *, urgent: bool = False) -> Future[_T]:
        """Run ``function`` in a write transaction. The future gets its value once that is committed.

        Functions run in the order of submission, except that those of one kind (``GroupedWrite``) run with
        the first of them, and that urgent ones go first:

        - A transaction of other functions starts none of them after an urgent one arrives.
        - The next transaction then holds urgent functions only.
        - The one after that holds other functions, so none of them waits for ever.

        A transaction may hold several functions, each in its own savepoint. An exception undoes the writes of
        its function only, and becomes the future's exception. If the database itself fails, the functions of
        the transaction run again one by one, so ``function`` must be safe to run twice. If it is down, they
        all fail at once. A function must also be fast, because all other writers wait for it.

        Raises:
            LedgerError: the writer is closed. The future raises it if the database fails.
        """
        job = WriteJob(function, urgent)
        with self._closing:
            if self._closed:
                raise LedgerError(
                    "the ledger's writer is closed", where=self._ledger.place, fix="the process is stopping"
                )
            self._jobs.put(job)
        if urgent:
            self._urgent_arrived = True
        return job.future

    async def run(self, function: Callable[[Connection], _T]) -> _T:
        """Await :meth:`submit` on an event loop; the function runs even if the caller is cancelled."""
        self._give_way()
        return await asyncio.wrap_future(self.submit(function))

    async def persist(
        self,
        function: Callable[[Connection], _T],
        *,
        patience: float = math.inf,
        on_outage: Callable[[], object] = lambda: None,
    ) -> _T:
        """Await :meth:`run`, again and again while the database is down; see :func:`outages.outlast`.

        A connection that breaks during a commit leaves open whether the function's writes are stored, so
        ``function`` must recognise its own writes.

        Args:
            function: as for :meth:`submit`.
            patience: seconds after which a failure is raised that may pass.
            on_outage: called after the first such failure.
        """
        return await outlast(lambda: self.run(function), patience=patience, on_outage=on_outage)

    def close(self) -> None:
        """Write what is queued, then stop the thread. Closing twice is allowed."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        waiting: dict[bool, deque[WriteJob]] = {True: deque(), False: deque()}
        closed = urgent = False
        ended = -math.inf
        while not closed or any(waiting.values()):
            closed = self._collect(waiting, block=not closed and not any(waiting.values())) or closed
            while not closed and not waiting[True] and (pause := ended + _PAUSE - time.monotonic()) > 0.0:
                closed = self._collect(waiting, block=True, timeout=pause)
            # Urgent jobs go first, but two urgent transactions never follow each other while others wait.
            urgent = bool(waiting[True]) and not (urgent and waiting[False])
            jobs = waiting[urgent]
            batch = [*islice(jobs, self._batch)]
            if batch:
                left = run_batch(self._ledger, batch, interrupted=lambda: self._urgent_arrived)
                for _ in batch:
                    jobs.popleft()
                jobs.extendleft(reversed(left))
                ended = time.monotonic()

    def _collect(
        self, waiting: Mapping[bool, deque[WriteJob]], *, block: bool, timeout: float | None = None
    ) -> bool:
        """Sort the submitted jobs by urgency; return whether the writer was closed behind them.

        Args:
            waiting: the jobs that are urgent and those that are not; extended in place.
            block: whether to wait for the first job.
            timeout: seconds after which to wait no longer; ``None`` for no limit.
        """
        self._urgent_arrived = False
        try:
            while (job := self._jobs.get(block=block, timeout=timeout)) is not None:
                waiting[job.urgent].append(job)
                block = False
        except queue.Empty:
            return False
        return True
