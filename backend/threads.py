"""Threads that compute and do not keep their process from ending, and work on another thread's loop.

The threads of a ``ThreadPoolExecutor`` are waited for without a bound, by its own ``shutdown`` and by Python
at the end of a process: one computation that never ends keeps the process alive for ever.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from itertools import count
from typing import Any, Final, Generic, TypeVar

import structlog

_T = TypeVar("_T")
_K = TypeVar("_K")

ENDING: Final = 1.5
"""Seconds that an ending process waits for one thread or pool of threads that still computes."""

_log = structlog.get_logger(__name__)


@contextmanager
def repeatedly(function: Callable[[], object], seconds: float, name: str) -> Iterator[None]:
    """Call a function again and again, so many seconds apart, in a thread until the block ends."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(seconds):
            function()

    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Threads(Executor):
    """A pool of daemon threads.

    Args:
        number: how many threads; all start now.
        name: the beginning of their names.
    """

    def __init__(self, number: int, name: str) -> None:
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._closed = False
        self._lock = threading.Lock()  # no job may come behind the ends of the threads
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}_{each}", daemon=True) for each in range(number)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[..., _T], /, *args: Any, **options: Any) -> Future[_T]:
        """Call a function in one of the threads.

        Raises:
            RuntimeError: the pool was shut down.
        """
        future: Future[_T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._jobs.put((future, lambda: fn(*args, **options)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more jobs, and with ``wait`` give those under way :data:`ENDING` seconds to end."""
        with self._lock:
            first, self._closed = not self._closed, True
            if cancel_futures:
                self._cancel_waiting()
            if first:
                for _ in self._threads:
                    self._jobs.put(None)
        if wait:
            until = time.monotonic() + ENDING
            for thread in self._threads:
                await_end(thread, until - time.monotonic())

    def _cancel_waiting(self) -> None:
        ends = 0
        while True:  # until the queue is empty: nothing is put while the lock is held
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                ends += 1
            else:
                job[0].cancel()
        for _ in range(ends):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:  # until the pool is shut down
            future, call = job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:  # the caller's, as in any executor
                future.set_exception(error)
            del job, future, call  # a waiting thread must not keep a result alive


def await_end(thread: threading.Thread, seconds: float = ENDING) -> None:
    """Wait for a thread, and leave it behind if it still runs; it ends with the process."""
    thread.join(max(seconds, 0.0))
    if thread.is_alive():
        _log.error("thread_left_behind", thread=thread.name)


class WorkUnderWay(Generic[_K, _T]):
    """Coroutines on the loop of another thread, each handed out when it has ended.

    Ctrl-C may interrupt every method. Within ``concurrent.futures.wait`` it could leave futures locked,
    and the loop would then wait for them for ever.

    Args:
        submit: runs a coroutine on the loop.
    """

    def __init__(self, submit: Callable[[Coroutine[Any, Any, None]], Future[None]]) -> None:
        self._submit = submit
        self._numbers = count()
        self._running: dict[int, Future[None]] = {}
        self._ends: queue.SimpleQueue[tuple[int, _K, Future[_T]]] = queue.SimpleQueue()

    def __len__(self) -> int:
        """How many have not been handed out."""
        return len(self._running)

    @property
    def not_ended(self) -> int:
        """How many have not ended."""
        return len(self._running) - self._ends.qsize()

    def start(self, key: _K, coroutine: Coroutine[Any, Any, _T]) -> None:
        """Run a coroutine, which is handed out with the key."""
        number = next(self._numbers)
        self._running[number] = self._submit(self._run(number, key, coroutine))

    def next_ended(self, seconds: float | None = None) -> tuple[_K, Future[_T]]:
        """Wait for the end of one, and hand out its key and its result or error.

        Raises:
            TimeoutError: none has ended within so many seconds.
        """
        try:
            number, key, result = self._ends.get(timeout=None if seconds is None else max(seconds, 0.0))
        except queue.Empty:
            raise TimeoutError from None
        del self._running[number]
        return key, result

    def remaining(self, seconds: float) -> Iterator[tuple[_K, Future[_T]]]:
        """Hand out those that end within some seconds, until none is left."""
        until = time.monotonic() + seconds
        while self._running:
            try:
                yield self.next_ended(until - time.monotonic())
            except TimeoutError:
                return

    async def _run(self, number: int, key: _K, coroutine: Coroutine[Any, Any, _T]) -> None:
        result: Future[_T] = Future()
        try:
            result.set_result(await coroutine)
        except BaseException as error:
            result.set_exception(error)
            raise
        finally:
            self._ends.put((number, key, result))
