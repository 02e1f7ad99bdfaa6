"""Group commit: one thread per process that commits many writes in one transaction.

A durable commit takes milliseconds whatever its size. One thread therefore runs all waiting functions in one
transaction, and their callers continue once that is committed.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import queue
import random
import threading
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from backend.errors import LedgerError
from backend.ledger.database.database import Ledger, SpareRoom
from backend.threads import Threads, await_end

_Item = TypeVar("_Item")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, eq=False)
class GroupedWrite(Generic[_Item, _Value]):
    """A function for the ledger's writer, which runs those with the same ``together`` at once.

    Attributes:
        together: takes a write transaction and different items, and returns the value of each. It must do
            what the items one by one would do. If it raises an error for several, each is tried alone.
        item: what this write is about.
    """

    together: Callable[[Connection, Sequence[_Item]], Sequence[_Value]]
    item: _Item

    def __call__(self, connection: Connection) -> _Value:
        """Run this write alone."""
        return self.together(connection, [self.item])[0]


_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
"""Seconds between two tries; the pause doubles from the first to the longest."""

_T = TypeVar("_T")


def is_temporary(error: BaseException) -> bool:
    """Whether the error is an outage, so that a retry may succeed later."""
    return isinstance(error, LedgerError) and error.temporary


async def outlast(
    step: Callable[[], Awaitable[_T]],
    *,
    patience: float = math.inf,
    on_outage: Callable[[], object] = lambda: None,
) -> _T:
    """Run a step, and retry it while the database is down.

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


_SECONDS = 0.01
"""Seconds for which one transaction starts further jobs, so that other processes get their turn."""

_GROUP = 64
"""The most jobs that run together."""


@dataclass(frozen=True, slots=True, eq=False)
class _WriteJob:
    """One function to run in a write transaction."""

    function: Callable[[Connection], Any]
    urgent: bool
    future: Future[Any] | asyncio.Future[Any]


@dataclass(frozen=True, slots=True)
class _Outcome:
    value: Any = None
    error: BaseException | None = None


def _run_batch(
    ledger: Ledger, jobs: Sequence[_WriteJob], *, interrupted: Callable[[], bool]
) -> list[_WriteJob]:
    """Run jobs in one transaction and resolve their futures."""
    outcomes = _together(ledger, jobs, interrupted) if len(jobs) > 1 else {jobs[0]: _alone(ledger, jobs[0])}
    awaited: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], _Outcome]]] = defaultdict(list)
    for job, outcome in outcomes.items():
        if isinstance(job.future, asyncio.Future):
            awaited[job.future.get_loop()].append((job.future, outcome))
        elif job.future.set_running_or_notify_cancel():
            _resolve([(job.future, outcome)])
    for loop, ended in awaited.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_resolve, ended)  # once, as each call wakes the loop
    return [job for job in jobs if job not in outcomes]


def _groups(jobs: Sequence[_WriteJob]) -> list[list[_WriteJob]]:
    """Put jobs of one kind together, each group at the place of its first job."""
    groups: list[list[_WriteJob]] = []
    open_groups: dict[object, list[_WriteJob]] = {}
    for job in jobs:
        kind = job.function.together if isinstance(job.function, GroupedWrite) else job
        group = open_groups.get(kind)
        if group is None or len(group) == _GROUP:
            group = open_groups[kind] = []
            groups.append(group)
        group.append(job)
    return groups


def _alone(ledger: Ledger, job: _WriteJob) -> _Outcome:
    try:
        with ledger.write() as connection:
            value = job.function(connection)
    except BaseException as error:  # passed to the caller; the writer's thread must survive
        return _Outcome(error=error)
    return _Outcome(value)


def _together(
    ledger: Ledger, jobs: Sequence[_WriteJob], interrupted: Callable[[], bool]
) -> dict[_WriteJob, _Outcome]:
    """Run jobs in one transaction; if one raises an error of its own, again with a savepoint for each."""
    try:
        return _in_one_transaction(ledger, _groups(jobs), interrupted, _run)
    except _JobRaisedError:
        return _in_one_transaction(ledger, [[job] for job in jobs], interrupted, _in_savepoint)


def _in_one_transaction(
    ledger: Ledger,
    groups: Sequence[Sequence[_WriteJob]],
    interrupted: Callable[[], bool],
    step: Callable[[Connection, Sequence[_WriteJob]], list[_Outcome]],
) -> dict[_WriteJob, _Outcome]:
    outcomes: dict[_WriteJob, _Outcome] = {}
    transaction_began = all_ran = False
    try:
        with ledger.write() as connection:
            transaction_began = True
            until = time.monotonic() + _SECONDS
            for group in groups:
                outcomes |= zip(group, step(connection, group), strict=True)
                if (interrupted() and not group[0].urgent) or time.monotonic() >= until:
                    break
            all_ran = True
    except _JobRaisedError:
        raise
    except Exception as error:  # the writer's thread must survive any failure
        jobs = [job for group in groups for job in group]
        if transaction_began and not all_ran and not is_temporary(error):
            return {job: _alone(ledger, job) for job in jobs}
        return {job: _Outcome(error=_copy(error)) for job in (outcomes if all_ran else jobs)}
    return outcomes


class _JobRaisedError(Exception):
    """A job raised an error of its own, so the transaction must be restarted with savepoints."""


def _run(connection: Connection, group: Sequence[_WriteJob]) -> list[_Outcome]:
    """Run jobs of one kind. Whatever they raise ends the transaction."""
    try:
        writes = [job.function for job in group if isinstance(job.function, GroupedWrite)]
        if len(writes) > 1:
            values = writes[0].together(connection, [write.item for write in writes])
        else:
            values = [group[0].function(connection)]
    except SQLAlchemyError:
        raise
    except BaseException as error:
        raise _JobRaisedError from error
    # On a full disk SQLite rolls back on its own; later writes would be outside any transaction.
    if not getattr(connection.connection.dbapi_connection, "in_transaction", True):
        raise OperationalError("job", None, RuntimeError("SQLite rolled the transaction back by itself"))
    return [_Outcome(value) for value in values]


def _in_savepoint(connection: Connection, group: Sequence[_WriteJob]) -> list[_Outcome]:
    """Run one job in a savepoint. Database failures are raised, as they may have ended the transaction."""
    (job,) = group
    # connection.begin_nested() would recompile both statements every time.
    connection.exec_driver_sql("SAVEPOINT job")
    try:
        outcome = _Outcome(job.function(connection))
    except SQLAlchemyError:
        raise
    except BaseException as error:  # passed to the caller
        connection.exec_driver_sql("ROLLBACK TO SAVEPOINT job")
        outcome = _Outcome(error=error)
    connection.exec_driver_sql("RELEASE SAVEPOINT job")
    return [outcome]


def _copy(error: Exception) -> Exception:
    """Copy a ledger error for each waiter: one object raised in many tasks would mix up the tracebacks."""
    if isinstance(error, LedgerError):
        copy = type(error)(error.message, where=error.where, fix=error.fix, temporary=error.temporary)
        copy.__cause__ = error.__cause__
        return copy
    return error


def _resolve(ended: Sequence[tuple[Future[Any] | asyncio.Future[Any], _Outcome]]) -> None:
    for future, outcome in ended:
        if future.done():  # its caller was cancelled
            continue
        if outcome.error is None:
            future.set_result(outcome.value)
        elif isinstance(outcome.error, StopIteration):  # asyncio futures refuse a StopIteration
            future.set_exception(RuntimeError("a function of the ledger raised StopIteration"))
        else:
            future.set_exception(outcome.error)


class GroupedReads(Generic[_Item, _Value]):
    """Reads of one kind. Used from one event loop only."""

    def __init__(
        self, access: LedgerAccess, together: Callable[[Connection, Sequence[_Item]], Sequence[_Value]]
    ) -> None:
        self._access, self._together = access, together
        self._waiting: list[tuple[_Item, asyncio.Future[_Value]]] = []
        self._worker: asyncio.Task[None] | None = None

    @classmethod
    def of_equals(
        cls, access: LedgerAccess, once: Callable[[Connection, _Item], _Value]
    ) -> GroupedReads[_Item, _Value]:
        """Reads whose items are often equal: ``once`` is called once for each of the different ones."""

        def together(connection: Connection, items: Sequence[_Item]) -> list[_Value]:
            values = {item: once(connection, item) for item in dict.fromkeys(items)}
            return [values[item] for item in items]

        return cls(access, together)

    async def read(self, item: _Item) -> _Value:
        """Return the value of one item, as it is in the ledger now or later; waits while it is down."""
        future: asyncio.Future[_Value] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._worker is None or self._worker.done():
            # it starts in the loop's next turn and takes all reads of this turn
            self._worker = asyncio.create_task(self._work())
        return await future

    async def _work(self) -> None:
        try:
            while group := self._waiting[:_GROUP]:
                del self._waiting[:_GROUP]
                await self._read(group)
        finally:
            # reads are only left if the loop ends; a later loop must not answer them
            self._waiting.clear()

    async def _read(self, group: Sequence[tuple[_Item, asyncio.Future[_Value]]]) -> None:
        items = [item for item, _ in group]
        try:
            values = await self._access.read(lambda connection: self._together(connection, items))
        except Exception as error:
            for alone in group if len(group) > 1 else ():
                await self._read([alone])  # each learns of its own error
            for _, future in group:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), value in zip(group, values, strict=True):
            if not future.done():  # its caller was cancelled
                future.set_result(value)


_BATCH = 256

_PAUSE, _MOST_PAUSE = 0.004, 0.05
"""The least and the most seconds after a transaction in which the next one gathers functions, unless one of
them is urgent: in between as long as the transaction took.

A function that arrives later does not wait. So many small writes share a commit also where commits are quick,
and the writer takes at most half of a busy process's time.
"""


_LAST_WRITES = 10.0
"""Seconds for the writes that are queued when the writer is closed."""


class Writer:
    """A daemon thread that runs functions in write transactions. Create it after a fork, not before.

    Args:
        ledger: the migrated ledger.
        give_way: called on an event loop before each write, to let more important work go first.
        spare: the room that a process keeps that ends when the disk is full; ``None`` for one that waits.
    """

    def __init__(
        self, ledger: Ledger, *, give_way: Callable[[], object] = lambda: None, spare: SpareRoom | None = None
    ) -> None:
        self.ledger, self._give_way, self.spare = ledger, give_way, spare
        self._jobs: queue.SimpleQueue[_WriteJob | None] = queue.SimpleQueue()
        self._urgent_arrived = False
        self._at_once = threading.Event()  # ends the gathering
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
        - The one after that holds other functions, so none of them waits forever.

        A transaction may hold several functions, each in its own savepoint. An exception undoes the writes of
        its function only, and becomes the future's exception. If the database itself fails, the functions of
        the transaction run again one by one, so ``function`` must be safe to run twice. If it is down, they
        all fail at once. A function must also be fast, because all other writers wait for it.

        Raises:
            LedgerError: the writer is closed. The future raises it if the database fails.
        """
        future: Future[_T] = Future()
        self._queue(_WriteJob(function, urgent, future))
        return future

    def _queue(self, job: _WriteJob) -> None:
        with self._closing:
            if self._closed:
                raise LedgerError(
                    "the ledger's writer is closed", where=self.ledger.place, fix="the process is stopping"
                )
            self._jobs.put(job)
        if job.urgent:
            self._urgent_arrived = True
            self._at_once.set()

    async def run(self, function: Callable[[Connection], _T]) -> _T:
        """Await :meth:`submit` on an event loop; the function runs even if the caller is cancelled."""
        self._give_way()
        future: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self._queue(_WriteJob(function, urgent=False, future=future))
        try:
            return await future
        except LedgerError as error:
            if self.spare is None:
                raise
            raise self.spare.judged(error) from error

    async def persist(
        self,
        function: Callable[[Connection], _T],
        *,
        patience: float = math.inf,
        on_outage: Callable[[], object] = lambda: None,
    ) -> _T:
        """Await :meth:`run`, again and again while the database is down; see :func:`outlast`.

        A connection that breaks during a commit leaves open whether the function's writes are stored, so
        ``function`` must recognise its own writes.
        """
        return await outlast(lambda: self.run(function), patience=patience, on_outage=on_outage)

    def close(self) -> None:
        """Write what is queued, then stop the thread; it has ten seconds. Closing twice is allowed."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
                self._at_once.set()
        await_end(self._thread, _LAST_WRITES)
        if self.spare is not None:
            self.spare.give_up()

    def _work(self) -> None:
        waiting: dict[bool, deque[_WriteJob]] = {True: deque(), False: deque()}
        closed = urgent = False
        gathers_until = -math.inf
        while not closed or any(waiting.values()):
            closed = self._collect(waiting, block=not closed and not any(waiting.values())) or closed
            if not closed and not waiting[True] and (pause := gathers_until - time.monotonic()) > 0.0:
                self._at_once.wait(pause)  # the queue would wake this thread for every function
                closed = self._collect(waiting, block=False)
            # Urgent jobs go first, but two urgent transactions never follow each other while others wait.
            urgent = bool(waiting[True]) and not (urgent and waiting[False])
            jobs = waiting[urgent]
            batch = [*islice(jobs, _BATCH)]
            if batch:
                began = time.monotonic()
                left = _run_batch(self.ledger, batch, interrupted=lambda: self._urgent_arrived)
                for _ in batch:
                    jobs.popleft()
                jobs.extendleft(reversed(left))
                ended = time.monotonic()
                gathers_until = ended + max(_PAUSE, min(ended - began, _MOST_PAUSE))

    def _collect(self, waiting: Mapping[bool, deque[_WriteJob]], *, block: bool) -> bool:
        """Sort the submitted jobs by urgency; return whether the writer was closed behind them."""
        self._urgent_arrived = False
        self._at_once.clear()
        try:
            while (job := self._jobs.get(block=block)) is not None:
                waiting[job.urgent].append(job)
                block = False
        except queue.Empty:
            return False
        return True


@dataclass(frozen=True, slots=True)
class LedgerAccess:
    """How the coroutines of one process read and write the ledger.

    Attributes:
        ledger: the migrated ledger.
        writer: its one writer.
        readers: the threads that read.
        clock: returns unix seconds.
    """

    ledger: Ledger
    writer: Writer
    readers: Executor
    clock: Callable[[], float] = time.time

    @classmethod
    @contextlib.contextmanager
    def opened(cls, ledger: Ledger, clock: Callable[[], float] = time.time) -> Iterator[LedgerAccess]:
        """Access for the length of the block, with a writer and a thread of its own."""
        writer = Writer(ledger)
        try:
            with Threads(1, "readers") as readers:
                yield cls(ledger, writer, readers, clock)
        finally:
            writer.close()

    async def read_once(self, function: Callable[[Connection], _T]) -> _T:
        """Run a function in a read transaction, in one of the threads."""

        def attempt() -> _T:
            with self.ledger.read() as connection:
                return function(connection)

        return await self.in_thread(attempt)

    async def read(self, function: Callable[[Connection], _T]) -> _T:
        """Await :meth:`read_once`, again and again while the database is down."""
        return await outlast(lambda: self.read_once(function))

    async def in_thread(self, function: Callable[[], _T]) -> _T:
        """Run a function in one of the threads, such as one that is slow."""
        return await asyncio.get_running_loop().run_in_executor(self.readers, function)
