from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from types import SimpleNamespace

import pytest

from backend.server import urgent_requests as module
from backend.server.urgent_requests import UrgentRequests


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
    """The loop stands still until the request is over, however slow the machine is."""
    monkeypatch.setattr(module, "_LONGEST", 60.0)


class Clock:
    """Time that passes where somebody waits, as an event that never comes is waited for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.waited = 0.0
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(module, "threading", SimpleNamespace(Event=lambda: self, Lock=threading.Lock))

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.waited += seconds

    def set(self) -> None:
        pass


class AtOnce(asyncio.SelectorEventLoop):
    """A loop that has nothing else to do."""

    def call_soon_threadsafe(self, callback: Callable[[], object]) -> None:  # type: ignore[override]
        callback()


@pytest.mark.usefixtures("patient")
def test_the_loop_does_nothing_until_the_request_is_over(
    loop: asyncio.AbstractEventLoop,
) -> None:
    worked = threading.Event()
    with UrgentRequests(loop).answering():
        loop.call_soon_threadsafe(worked.set)
        meanwhile = worked.wait(0.2)
    assert not meanwhile
    assert worked.wait(30)


@pytest.mark.usefixtures("patient")
def test_a_request_that_fails_is_over(
    loop: asyncio.AbstractEventLoop,
) -> None:
    worked = threading.Event()
    with pytest.raises(KeyError), UrgentRequests(loop).answering():
        raise KeyError
    loop.call_soon_threadsafe(worked.set)
    assert worked.wait(30)


@pytest.mark.usefixtures("patient")
def test_the_loop_stands_still_for_a_request_though_a_later_one_is_over(
    loop: asyncio.AbstractEventLoop,
) -> None:
    busy, worked = threading.Event(), threading.Event()
    requests = UrgentRequests(loop)
    loop.call_soon_threadsafe(busy.wait)
    with requests.answering():
        with requests.answering():
            pass
        loop.call_soon_threadsafe(worked.set)
        busy.set()
        meanwhile = worked.wait(0.2)
    assert not meanwhile
    assert worked.wait(30)


def test_the_loop_goes_on_after_a_while_whatever_becomes_of_the_request(
    loop: asyncio.AbstractEventLoop,
) -> None:
    worked = threading.Event()
    with UrgentRequests(loop).answering():
        loop.call_soon_threadsafe(worked.set)
        assert worked.wait(30)


@pytest.mark.usefixtures("patient")
def test_a_loop_gives_way_to_a_request_that_it_has_not_been_told_of_yet(
    loop: asyncio.AbstractEventLoop,
) -> None:
    busy, gave_way = threading.Event(), threading.Event()
    requests = UrgentRequests(loop)

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


def test_the_loop_stands_still_for_half_of_the_time_at_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    with closing(AtOnce()) as loop:
        requests = UrgentRequests(loop)
        for _ in range(1000):
            with requests.answering():
                clock.now += 0.001
    assert clock.waited <= clock.now / 2 + module._LONGEST


def test_a_request_while_the_process_stops_is_in_nobodys_way() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    with UrgentRequests(loop).answering():
        pass
