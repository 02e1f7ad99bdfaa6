"""Writes of one process, many in one commit.

A commit that is safe on the disk takes milliseconds whatever is in it. So one thread takes everything that
waits into one transaction, and whoever waits goes on when that is committed.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from backend.errors import LedgerError
from backend.ledger.database.ledger import Ledger

_BATCH = 256
_SECONDS = 0.01
"""How long one transaction goes on taking functions in, for the sake of other processes."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    function: Callable[[Connection], Any]
    urgent: bool
    future: Future[Any] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class _Outcome:
    value: Any = None
    error: BaseException | None = None


class Writer:
    """One daemon thread that runs functions on the ledger; make it after the fork.

    Args:
        ledger: the migrated ledger.
        batch: functions that share one transaction, at the most.
        give_way: what an event loop does before it writes.
    """

    def __init__(
        self, ledger: Ledger, *, batch: int = _BATCH, give_way: Callable[[], object] = lambda: None
    ) -> None:
        self._ledger, self._batch, self._give_way = ledger, batch, give_way
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._hurry = False
        self._closed = False
        self._door = threading.Lock()  # nothing may be queued behind the None that ends the thread
        self._thread = threading.Thread(target=self._work, name="camvo-ledger-writer", daemon=True)
        self._thread.start()

    def submit(self, function: Callable[[Connection], _T], *, urgent: bool = False) -> Future[_T]:
        """Run ``function`` in a write transaction; the future has its value once that is committed.

        What is urgent goes before what is not: a transaction of other functions takes nothing more in, and
        the next one is of urgent functions alone. The one after that is not, so nobody waits for ever.
        Otherwise functions run in the order they were submitted.

        Others may share the transaction, each in a savepoint of its own: an exception undoes this function's
        writes only, and is the future's. When the database itself fails, the functions of a batch are run
        again one by one, so ``function`` must be safe to run twice. It has to be as quick as anything in a
        transaction.

        Raises:
            LedgerError: the writer is closed; by the future, that the database failed.
        """
        job = _Job(function, urgent)
        with self._door:
            if self._closed:
                raise LedgerError(
                    "the writer is closed", where=self._ledger.place, fix="the process is stopping"
                )
            self._jobs.put(job)
        if urgent:
            self._hurry = True
        return job.future

    async def run(self, function: Callable[[Connection], _T]) -> _T:
        """:meth:`submit` for an event loop; the function runs even if the caller is cancelled meanwhile."""
        self._give_way()
        return await asyncio.wrap_future(self.submit(function))

    def close(self) -> None:
        """Write what is queued, then stop the thread; later calls do nothing."""
        with self._door:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        waiting: dict[bool, deque[_Job]] = {True: deque(), False: deque()}
        ended = urgent = False
        while not ended or any(waiting.values()):
            ended = self._collect(waiting, patient=not ended and not any(waiting.values())) or ended
            # What is urgent first, but however much of it comes, something else in between.
            urgent = bool(waiting[True]) and not (urgent and waiting[False])
            some = waiting[urgent]
            for _ in range(self._write([*islice(some, self._batch)])):
                some.popleft()

    def _collect(self, waiting: Mapping[bool, deque[_Job]], *, patient: bool) -> bool:
        """Sort what was submitted, waiting for one if ``patient``; whether the end was reached."""
        self._hurry = False
        try:
            while (job := self._jobs.get(block=patient)) is not None:
                waiting[job.urgent].append(job)
                patient = False
        except queue.Empty:
            return False
        return True

    def _write(self, batch: Sequence[_Job]) -> int:
        """Run functions in one transaction, the first and what begins within :data:`_SECONDS`; how many."""
        outcomes = self._together(batch) if len(batch) > 1 else [self._alone(job) for job in batch]
        for job, outcome in zip(batch, outcomes, strict=False):
            _resolve(job.future, outcome)
        return len(outcomes)

    def _alone(self, job: _Job) -> _Outcome:
        try:
            with self._ledger.write() as connection:
                value = job.function(connection)
        except BaseException as error:  # its caller gets it, and the thread lives on
            return _Outcome(error=error)
        return _Outcome(value)

    def _together(self, batch: Sequence[_Job]) -> list[_Outcome]:
        outcomes: list[_Outcome] = []
        began = ran = False
        try:
            with self._ledger.write() as connection:
                began = True
                until = time.monotonic() + _SECONDS
                for job in batch:
                    outcomes.append(_run(connection, job))
                    if (self._hurry and not job.urgent) or time.monotonic() >= until:
                        break
                ran = True
        except Exception as error:  # whatever went wrong, the thread has to live on
            if began and not ran:
                return [self._alone(job) for job in batch]
            return [_Outcome(error=_copy(error)) for _ in (outcomes if ran else batch)]
        return outcomes


def _run(connection: Connection, job: _Job) -> _Outcome:
    """One function in its savepoint; a database failure is raised: it may have ended the transaction."""
    # Not connection.begin_nested(): that compiles both statements anew every time.
    connection.exec_driver_sql("SAVEPOINT job")
    try:
        outcome = _Outcome(job.function(connection))
    except SQLAlchemyError:
        raise
    except BaseException as error:  # its caller gets it
        connection.exec_driver_sql("ROLLBACK TO SAVEPOINT job")
        outcome = _Outcome(error=error)
    connection.exec_driver_sql("RELEASE SAVEPOINT job")
    return outcome


def _copy(error: Exception) -> Exception:
    """An exception for each waiter: one object raised in many tasks would mix up their tracebacks."""
    if isinstance(error, LedgerError):
        copy = LedgerError(error.message, where=error.where, fix=error.fix)
        copy.__cause__ = error.__cause__
        return copy
    return error


def _resolve(future: Future[Any], outcome: _Outcome) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if outcome.error is None:
        future.set_result(outcome.value)
    elif isinstance(outcome.error, StopIteration):  # asyncio cannot carry one
        future.set_exception(RuntimeError("StopIteration in a function of the ledger"))
    else:
        future.set_exception(outcome.error)
