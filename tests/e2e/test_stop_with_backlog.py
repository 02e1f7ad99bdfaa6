"""Signals while a batch waits: no call starts after them, and what is in flight is answered and stored."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from server_process import MODELS, ServerProcess, config_for, wait_until
from sqlalchemy import select

from backend.ledger.database import tables
from backend.testing import OpenAIServer, Reply

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

TASKS = range(1, 201)
AT_ONCE = 4
IN_FLIGHT = AT_ONCE * len(MODELS)


@pytest.mark.parametrize(
    ("number", "group"), [(signal.SIGTERM, False), (signal.SIGINT, True)], ids=["SIGTERM", "Ctrl-C"]
)
def test_a_server_that_stops_with_a_backlog_starts_nothing_and_loses_nothing(
    tmp_path: Path, number: signal.Signals, group: bool
) -> None:
    answer = threading.Event()

    def script(body: dict[str, Any]) -> Reply:
        return Reply.says({"mood": "Glad"}).held_until(answer)

    with (
        OpenAIServer(script) as models,
        ServerProcess(tmp_path, config_for(models, tmp_path, concurrency=AT_ONCE)) as server,
        ThreadPoolExecutor(1) as person,
    ):
        server.start()
        batch = person.submit(server.predict, TASKS)
        assert models.wait_for(IN_FLIGHT, timeout=60)
        server.signal(number, group=group)
        wait_until(lambda: not server.listens, "closed door")
        answer.set()
        results = batch.result()
        assert server.end() == 0
        assert models.count() == IN_FLIGHT
        assert sum(map(bool, results)) == AT_ONCE
        calls = server.rows(select(tables.calls.c.state, tables.calls.c.error_code))
        assert [tuple(call) for call in calls] == [("settled", None)] * IN_FLIGHT
        assert len(server.rows(select(tables.rounds.c.id))) == AT_ONCE
        assert "Traceback" not in server.log
