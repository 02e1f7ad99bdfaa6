"""Threads that compute, and do not keep their process from ending.

The threads of a ``ThreadPoolExecutor`` are waited for without a bound, by its own ``shutdown`` and by Python
at the end of a process: one computation that never ends keeps the process alive for ever.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, Final, TypeVar

import structlog

_T = TypeVar("_T")

ENDING: Final = 1.5
"""Seconds that an ending process waits for one thread or pool of threads that still computes."""

_log = structlog.get_logger(__name__)


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
