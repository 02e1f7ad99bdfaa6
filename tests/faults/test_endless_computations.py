"""SIGTERM ends a server within its grace period, whatever its threads compute."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from server_process import ServerProcess, config_for, wait_until

from backend.testing import OpenAIServer, Reply

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

DEADLINE = 1.0
GRACE = DEADLINE + 15.0


@pytest.mark.parametrize(
    "threads",
    [
        pytest.param(["camvo-loop"], id="loop"),
        pytest.param(["recounter", "ledger-reader", "camvo-embedder", "camvo-worker"], id="pools"),
        pytest.param(["camvo-ledger-writer"], id="writer"),
    ],
)
def test_a_server_ends_while_a_computation_does_not(tmp_path: Path, threads: list[str]) -> None:
    with OpenAIServer(lambda body: Reply.says({"mood": "Glad"})) as models:
        config = config_for(models, tmp_path, deadline=DEADLINE, redact="endless_plants:redact")
        with ServerProcess(tmp_path, config, CAMVO_TEST_PLANTS=" ".join(threads)) as server:
            server.start(ready=False)
            wait_until(lambda: server.get("/ready?part=embedder").status_code == 200, "embedder")
            server.signal(signal.SIGTERM)
            signalled = time.monotonic()
            assert server.end() == 0
            assert time.monotonic() - signalled < GRACE
            left = [line for line in server.log.splitlines() if "thread_left_behind" in line]
            assert [any(f'"{thread}' in line for line in left) for thread in threads] == [True] * len(threads)
            assert "SIGKILL" not in server.log
