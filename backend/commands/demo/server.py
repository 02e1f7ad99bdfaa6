"""The server as a child process, with a ledger in a temporary folder."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import httpx

from backend.settings import child_environment
from camvo.errors import CamvoError

_PATIENCE = 90.0
"""Seconds until the server must be ready; importing torch and litellm takes most of them."""


@dataclass(frozen=True, slots=True)
class RunningServer:
    """The server's address, its ledger and its process."""

    url: str
    database_url: str
    process: subprocess.Popen[bytes]


@contextmanager
def running_server(port: int) -> Iterator[RunningServer]:
    """Run ``camvo serve`` on the loopback interface until the block ends, then delete its ledger.

    Raises:
        CamvoError: the server stopped or did not become ready; the error has the end of its log.
    """
    with tempfile.TemporaryDirectory(prefix="camvo-demo-", ignore_cleanup_errors=True) as folder:
        database_url = f"sqlite:///{Path(folder) / 'demo.sqlite'}"
        log_path = Path(folder) / "server.log"
        command = [sys.executable, "-m", "backend.cli", "serve", "--host", "127.0.0.1", "--port", str(port)]
        with log_path.open("wb") as log:
            process = _start(command, log, database_url)
        try:
            url = f"http://127.0.0.1:{port}"
            _await_ready(url, process, log_path)
            yield RunningServer(url, database_url, process)
        finally:
            process.terminate()
            process.wait(timeout=120)


def _start(command: list[str], log: IO[bytes], database_url: str) -> subprocess.Popen[bytes]:
    environment = child_environment(CAMVO_DATABASE_URL=database_url)
    # In a process group of its own: Ctrl-C must reach the demo alone, which then stops the server. Otherwise
    # the server could drop a request before the demo knows that it was interrupted.
    return subprocess.Popen(  # noqa: S603 - our own
        command, stdout=log, stderr=subprocess.STDOUT, env=environment, process_group=0
    )


def _await_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until and process.poll() is None:
        try:
            if httpx.get(f"{url}/ready", timeout=5.0).status_code == httpx.codes.OK:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.2)
    tail = log.read_text(errors="replace")[-2000:]
    raise CamvoError(
        "the demo's server did not become ready", where="camvo serve", fix=f"its log ends: {tail}"
    )
