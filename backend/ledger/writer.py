"""Writes of one process, many in one commit.

A commit that is safe on the disk takes milliseconds whatever is in it. So one thread takes everything that
waits into one transaction, and whoever waits goes on when that is committed.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from backend.ledger.database import Ledger
from camvo.errors import LedgerError

_BATCH = 256

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    function: Callable[[Connection], Any]
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
    """

    def __init__(self, ledger: Ledger, *, batch: int = _BATCH) -> None:
        self._ledger, self._batch = ledger, batch
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closed = False
        self._door = threading.Lock()  # nothing may be queued behind the None that ends the thread
        self._thread = threading.Thread(target=self._work, name="camvo-ledger-writer", daemon=True)
        self._thread.start()

    def submit(self, function: Callable[[Connection], _T]) -> Future[_T]:
        """Run ``function`` in a write transaction; the future has its value once that is committed.

        Others share the transaction, each in a savepoint of its own: an exception undoes this function's
        writes only, and is the future's. When the database itself fails, the functions of a batch are run
        again one by one, so ``function`` must be safe to run twice. It has to be as quick as anything in a
        transaction.

        Raises:
            LedgerError: the writer is closed; by the future, that the database failed.
        """
        job = _Job(function)
        with self._door:
            if self._closed:
                raise LedgerError(
                    "the writer is closed", where=self._ledger.place, fix="the process is stopping"
                )
            self._jobs.put(job)
        return job.future

    async def run(self, function: Callable[[Connection], _T]) -> _T:
        """:meth:`submit` for an event loop; the function runs even if the caller is cancelled meanwhile."""
        return await asyncio.wrap_future(self.submit(function))

    def close(self) -> None:
        """Write what is queued, then stop the thread; later calls do nothing."""
        with self._door:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        ended = False
        while not ended:
            batch, ended = self._take()
            if batch:
                self._write(batch)

    def _take(self) -> tuple[list[_Job], bool]:
        """Everything that waits, at least one; and whether the end was reached."""
        batch: list[_Job] = []
        job = self._jobs.get()
        while job is not None:
            batch.append(job)
            if len(batch) == self._batch:
                return batch, False
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return batch, False
        return batch, True

    def _write(self, batch: Sequence[_Job]) -> None:
        began = ran = False
        try:
            with self._ledger.write() as connection:
                began = True
                outcomes = [_run(connection, job) for job in batch]
                ran = True
        except Exception as error:  # whatever went wrong, the thread has to live on
            if began and not ran and len(batch) > 1:
                for job in batch:
                    self._write([job])
                return
            outcomes = [_Outcome(error=_copy(error)) for _ in batch]
        for job, outcome in zip(batch, outcomes, strict=True):
            _resolve(job.future, outcome)


def _run(connection: Connection, job: _Job) -> _Outcome:
    """One function in its savepoint; a database failure is raised: it may have ended the transaction."""
    try:
        with connection.begin_nested():
            return _Outcome(job.function(connection))
    except SQLAlchemyError:
        raise
    except StopIteration as error:  # asyncio cannot carry one
        return _Outcome(error=RuntimeError(f"{type(error).__name__} in a function of the ledger"))
    except BaseException as error:  # its caller gets it
        return _Outcome(error=error)


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
    else:
        future.set_exception(outcome.error)
