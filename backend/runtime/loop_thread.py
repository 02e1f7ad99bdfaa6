"""A process's event loop, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

import structlog

_T = TypeVar("_T")

_log = structlog.get_logger(__name__)


class LoopThread:
    """An event loop and its thread; create it after the fork, which no loop survives."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None

    def start(self, *background: Coroutine[Any, Any, None]) -> None:
        """Start the thread, with coroutines that run until the loop stops."""
        self._thread = threading.Thread(target=self._run, args=background, name="camvo-loop", daemon=True)
        self._thread.start()

    def submit(self, coroutine: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Run a coroutine on the loop; its result is a future for other threads."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call a function on the loop, or not at all if the loop has stopped; a signal handler may do so."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(callback)

    def stop(self) -> None:
        """Stop the loop, cancel what still runs on it, and wait for the thread to end."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        if self._thread is not None:
            self._thread.join()

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
