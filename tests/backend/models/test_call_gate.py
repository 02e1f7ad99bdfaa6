"""A stopping process: no call starts after the signal, and the answers of those in flight are stored."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import task
from server_process import wait_until
from sqlalchemy import select
from whole_backend import Backend, says, votes

from backend.ledger.database import tables
from backend.testing import Reply


def calls_of(backend: Backend) -> list[tuple[str, str]]:
    with backend.ledger.read() as connection:
        rows = connection.execute(select(tables.calls.c.state, tables.calls.c.error_code)).all()
    return [(row.state, row.error_code or "answered") for row in rows]


def test_no_call_starts_after_the_signal_and_those_in_flight_are_stored(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    release = threading.Event()

    def script(body: dict[str, Any]) -> Reply:
        return says(mood="Glad").held_until(release)

    with Backend(tmp_path, script, concurrency=2) as backend, ThreadPoolExecutor(1) as person:
        request = person.submit(backend.predict, *(task(number) for number in range(1, 31)))
        assert backend.server.wait_for(6)
        backend.runtime.stop_asking()
        release.set()
        results = request.result()
        assert [bool(result) for result in results] == [True] * 2 + [False] * 28
        assert backend.metric("camvo_tasks_total", outcome="stopping") == 28
        assert calls_of(backend) == [("settled", "answered")] * 6
    assert backend.server.count() == 6
    assert "Traceback" not in capfd.readouterr().err


def test_a_call_that_waits_for_room_at_its_model_does_not_start_either_and_costs_nothing(
    tmp_path: Path,
) -> None:
    release = threading.Event()

    def script(body: dict[str, Any]) -> Reply:
        return says(mood="Glad").held_until(release)

    with (
        Backend(tmp_path, script, entries={"max_concurrency": 1}) as backend,
        ThreadPoolExecutor(1) as person,
    ):
        request = person.submit(backend.predict, *(task(number) for number in range(1, 4)))
        assert backend.server.wait_for(3)
        while len(calls_of(backend)) < 9:  # all are claimed
            pass
        backend.runtime.stop_asking()
        release.set()
        assert sum(map(bool, request.result())) <= 1
        calls = calls_of(backend)
        assert len(calls) == 9
        assert calls.count(("settled", "answered")) == 3
        assert calls.count(("settled", "stopping")) == 6
        with backend.ledger.read() as connection:
            money = connection.execute(select(tables.calls.c.cost, tables.calls.c.error_code)).all()
        assert {row.cost for row in money if row.error_code} == {0}
    assert backend.server.count() == 3


def test_calls_that_wait_for_their_rate_are_refused_at_the_signal_and_cost_nothing(tmp_path: Path) -> None:
    script = votes(red="Glad", green="Glad", blue="Glad")
    with (
        Backend(tmp_path, script, entries={"rpm": 1}, deadline=50.0) as backend,
        ThreadPoolExecutor(1) as person,
    ):
        request = person.submit(backend.predict, task(1, "one"), task(2, "another"))
        wait_until(lambda: calls_of(backend).count(("settled", "answered")) == 3, "first calls")
        wait_until(lambda: len(calls_of(backend)) == 6, "claims of the other calls")
        backend.runtime.stop_asking()
        results = request.result(10.0)  # the next turn would come after a minute
        assert sum(map(bool, results)) <= 1
        assert calls_of(backend).count(("settled", "stopping")) == 3
    assert backend.server.count() == 3


def test_a_further_attempt_is_not_made_while_the_process_stops(tmp_path: Path) -> None:
    release = threading.Event()

    def script(body: dict[str, Any]) -> Reply:
        return Reply.fails(500).held_until(release)

    with Backend(tmp_path, script, retries=3) as backend, ThreadPoolExecutor(1) as person:
        request = person.submit(backend.predict, task(1))
        assert backend.server.wait_for(3)
        backend.runtime.stop_asking()
        release.set()
        assert request.result() == [[]]
    assert backend.server.count() == 3
