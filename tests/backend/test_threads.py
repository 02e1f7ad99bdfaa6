"""Threads: a computation that never ends does not keep its process from ending."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from backend import runtime, threads
from backend.runtime import LoopThread
from backend.threads import Threads, WorkUnderWay


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "ENDING", 0.1)
    monkeypatch.setattr(runtime, "ENDING", 0.1)


@pytest.fixture
def release() -> Iterator[threading.Event]:
    release = threading.Event()
    yield release
    release.set()


def test_a_pool_returns_what_its_functions_return_and_raise() -> None:
    with Threads(2, "pool") as pool:
        assert list(pool.map(pow, [2, 3], [3, 2])) == [8, 9]
        with pytest.raises(ZeroDivisionError):
            pool.submit(divmod, 1, 0).result(30.0)


def test_a_pool_that_is_shut_down_does_what_waits_and_takes_nothing_more() -> None:
    pool = Threads(1, "pool")
    waiting = [pool.submit(int) for _ in range(20)]
    pool.shutdown()
    assert [future.result(30.0) for future in waiting] == [0] * 20
    with pytest.raises(RuntimeError):
        pool.submit(int)


def test_a_pool_can_cancel_what_waits(release: threading.Event) -> None:
    pool = Threads(1, "pool")
    started = threading.Event()
    pool.submit(lambda: (started.set(), release.wait()))
    assert started.wait(30.0)
    waiting = pool.submit(int)
    pool.shutdown(wait=False, cancel_futures=True)
    assert waiting.cancelled()


def test_a_pool_leaves_a_computation_behind_that_does_not_end(
    release: threading.Event, capfd: pytest.CaptureFixture[str]
) -> None:
    pool = Threads(1, "counting")
    pool.submit(release.wait)
    pool.shutdown()
    assert "thread_left_behind" in (said := "".join(capfd.readouterr()))
    assert "counting_0" in said


def test_a_loop_that_stands_still_is_left_behind(release: threading.Event) -> None:
    thread = LoopThread()
    thread.start()
    thread.call_soon(lambda: release.wait() and None)
    assert not thread.turns(0.05)
    thread.finish(asyncio.sleep(0), 60.0)
    thread.stop()


def test_background_work_that_fails_is_logged_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    async def renewal() -> None:
        raise ValueError("the text of a task")

    thread = LoopThread()
    thread.start(renewal())
    thread.stop()
    said = "".join(capfd.readouterr())
    assert "background_work_ended" in said
    assert "renewal" in said
    assert "the text of a task" not in said


_SPINS = """
import sys, threading, asyncio
from backend import threads
threads.ENDING = 0.1
from backend.threads import Threads
from backend.runtime import LoopThread

def spin():
    while True:
        pass

pool, loop = Threads(1, "pool"), LoopThread()
loop.start()
pool.submit(spin)
loop.loop.call_soon_threadsafe(spin)
asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop.loop)
pool.shutdown()
loop.stop()
sys.exit(7)
"""


def test_python_ends_while_threads_still_compute() -> None:
    done = subprocess.run([sys.executable, "-c", _SPINS], timeout=110, check=False, capture_output=True)  # noqa: S603
    assert done.returncode == 7


def _interrupt_at(line: int) -> Callable[[FrameType, str, Any], Any]:
    """A trace function that raises at the n-th line that is run within the functions called from now on."""
    left = line

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if event == "line":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    return trace


def test_the_loop_goes_on_wherever_ctrl_c_interrupts_the_wait_for_its_work() -> None:
    thread = LoopThread()
    thread.start()
    for line in range(1, 1000):
        under_way: WorkUnderWay[int, int] = WorkUnderWay(thread.submit)
        go_on, ended = threading.Event(), threading.Semaphore(0)

        async def work(go_on: threading.Event = go_on, ended: threading.Semaphore = ended) -> int:
            try:
                return await asyncio.to_thread(go_on.wait, 30.0)
            finally:
                ended.release()

        for key in range(3):
            under_way.start(key, work())
        sys.settrace(_interrupt_at(line))
        try:
            under_way.next_ended(0.01)
        except TimeoutError:
            assert line > 1  # an interruption at this line comes too late
            break
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
            go_on.set()
        assert thread.turns(30.0)
        assert all(ended.acquire(timeout=30.0) for _ in range(3))
    thread.stop()


def test_work_under_way_hands_out_each_result_and_each_error_with_its_key() -> None:
    thread = LoopThread()
    thread.start()
    under_way: WorkUnderWay[str, int] = WorkUnderWay(thread.submit)

    async def half(number: int) -> int:
        if number % 2:
            raise ValueError(number)
        return number // 2

    under_way.start("even", half(6))
    under_way.start("odd", half(7))
    found = dict(under_way.remaining(30.0))
    assert found["even"].result() == 3
    assert isinstance(found["odd"].exception(), ValueError)
    assert not under_way
    thread.stop()


def test_work_that_does_not_end_is_left_under_way() -> None:
    thread = LoopThread()
    thread.start()
    under_way: WorkUnderWay[str, Any] = WorkUnderWay(thread.submit)
    under_way.start("waits", asyncio.Event().wait())
    assert list(under_way.remaining(0.01)) == []
    assert (len(under_way), under_way.not_ended) == (1, 1)
    thread.stop()


def test_an_interrupted_end_leaves_no_coroutine_that_nobody_awaits(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None: ...

    def interrupted(*_: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(LoopThread, "turns", interrupted)
    coroutine = work()
    with pytest.raises(KeyboardInterrupt):
        LoopThread().finish(coroutine, 0.0)
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
