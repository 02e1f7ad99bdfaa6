"""A process's event loop, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

import structlog

from backend.threads import ENDING, Threads, await_end

_T = TypeVar("_T")

_log = structlog.get_logger(__name__)


_WORKERS = 8
"""Threads for what a coroutine calls with ``asyncio.to_thread``."""


class _Loop(asyncio.SelectorEventLoop):
    """An event loop whose default executor does not keep the process from ending."""

    def __init__(self) -> None:
        super().__init__()
        self.workers = Threads(_WORKERS, "camvo-worker")

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., _T], *args: Any
    ) -> asyncio.Future[_T]:
        return super().run_in_executor(executor or self.workers, func, *args)


class LoopThread:
    """An event loop and its thread; create it after the fork, which no loop survives."""

    def __init__(self) -> None:
        self.loop = _Loop()
        self._thread: threading.Thread | None = None

    def start(self, *background: Coroutine[Any, Any, None]) -> None:
        """Start the thread, with coroutines that run until the loop stops."""
        self._thread = threading.Thread(target=self._run, args=background, name="camvo-loop", daemon=True)
        self._thread.start()

    def submit(self, coroutine: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Run a coroutine on the loop; its result is a future for other threads."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def finish(self, coroutine: Coroutine[Any, Any, object], seconds: float) -> None:
        """Run a coroutine that ends within some seconds, or not at all if the loop stands still."""
        if not self.turns(ENDING):
            coroutine.close()
            return
        with contextlib.suppress(TimeoutError):
            self.submit(coroutine).result(seconds + ENDING)

    def turns(self, seconds: float) -> bool:
        """Whether the loop calls a function within some seconds; if not, the log says what it computes."""
        called = threading.Event()
        self.call_soon(called.set)
        if called.wait(seconds):
            return True
        _log.error("loop_stands_still", where=self._current_line())
        return False

    def _current_line(self) -> str:
        """The file and line that the loop's thread is at."""
        number = None if self._thread is None else self._thread.ident
        frame = None if number is None else sys._current_frames().get(number)
        return "" if frame is None else f"{frame.f_code.co_filename.rsplit('/', 1)[-1]}:{frame.f_lineno}"

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call a function on the loop, or not at all if the loop has stopped; a signal handler may do so."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(callback)

    def stop(self) -> None:
        """Stop the loop and cancel what runs on it; a thread that computes without end is left behind."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        if self._thread is not None:
            await_end(self._thread)
        self.loop.workers.shutdown()

    def _run(self, *background: Coroutine[Any, Any, None]) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.set_exception_handler(_report)
        # The loop holds weak references only; the list keeps these tasks alive.
        tasks = [self.loop.create_task(coroutine) for coroutine in background]
        self.loop.run_forever()
        rest = asyncio.all_tasks(self.loop)
        for task in {*rest, *tasks}:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
        self.loop.close()


def _report(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error that nobody waits for, without its text and traceback, which may quote a task."""
    error = context.get("exception")
    _log.error("late_failure", reason=context.get("message"), kind=type(error).__name__)
