from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from types import SimpleNamespace

import pytest

from backend.server import runtime
from backend.server.runtime import _UrgentRequests


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop pauses until the request is answered, however slow the machine is."""
    monkeypatch.setattr(runtime, "_LONGEST", 60.0)


class Clock:
    """A clock that advances when an event is awaited; the event is never set in time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.waited = 0.0
        monkeypatch.setattr(runtime, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(runtime, "threading", SimpleNamespace(Event=lambda: self, Lock=threading.Lock))

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.waited += seconds

    def set(self) -> None:
        pass


class AtOnce(asyncio.SelectorEventLoop):
    """A loop that runs callbacks immediately."""

    def call_soon_threadsafe(self, callback: Callable[[], object]) -> None:  # type: ignore[override]
        callback()


@pytest.mark.usefixtures("patient")
def test_the_loop_pauses_until_the_request_is_answered(
    loop: asyncio.AbstractEventLoop,
) -> None:
    worked = threading.Event()
    with _UrgentRequests(loop).answering():
        loop.call_soon_threadsafe(worked.set)
        meanwhile = worked.wait(0.2)
    assert not meanwhile
    assert worked.wait(30)


@pytest.mark.usefixtures("patient")
def test_a_failed_request_counts_as_answered(
    loop: asyncio.AbstractEventLoop,
) -> None:
    worked = threading.Event()
    with pytest.raises(KeyError), _UrgentRequests(loop).answering():
        raise KeyError
    loop.call_soon_threadsafe(worked.set)
    assert worked.wait(30)


@pytest.mark.usefixtures("patient")
def test_the_loop_pauses_for_a_request_even_if_a_later_one_is_answered(
    loop: asyncio.AbstractEventLoop,
) -> None:
    busy, worked = threading.Event(), threading.Event()
    requests = _UrgentRequests(loop)
    loop.call_soon_threadsafe(busy.wait)
    with requests.answering():
        with requests.answering():
            pass
        loop.call_soon_threadsafe(worked.set)
        busy.set()
        meanwhile = worked.wait(0.2)
    assert not meanwhile
    assert worked.wait(30)


def test_the_loop_goes_on_after_the_limit_if_the_request_is_not_answered(
    loop: asyncio.AbstractEventLoop,
) -> None:
    worked = threading.Event()
    with _UrgentRequests(loop).answering():
        loop.call_soon_threadsafe(worked.set)
        assert worked.wait(30)


@pytest.mark.usefixtures("patient")
def test_the_loop_gives_way_to_a_request_before_its_callback_has_run(
    loop: asyncio.AbstractEventLoop,
) -> None:
    busy, gave_way = threading.Event(), threading.Event()
    requests = _UrgentRequests(loop)

    def work() -> None:
        assert busy.wait(30)
        requests.give_way()
        gave_way.set()

    loop.call_soon_threadsafe(work)
    with requests.answering():
        busy.set()
        meanwhile = gave_way.wait(0.2)
    assert not meanwhile
    assert gave_way.wait(30)


def test_the_loop_pauses_at_most_half_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    with closing(AtOnce()) as loop:
        requests = _UrgentRequests(loop)
        for _ in range(1000):
            with requests.answering():
                clock.now += 0.001
    assert clock.waited <= clock.now / 2 + runtime._LONGEST


def test_a_closed_loop_does_not_disturb_a_request() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    with _UrgentRequests(loop).answering():
        pass
