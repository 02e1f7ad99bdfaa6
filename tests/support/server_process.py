"""``camvo serve`` as a real process group with its ledger and log in one folder.

::

    with OpenAIServer(voters) as models, ServerProcess(tmp_path, config_for(models, tmp_path)) as server:
        server.start()
        server.predict(range(1, 5))         # one result for each task
        server.kill()                       # kill -9 of the whole group
        server.start()                      # again, on the same ledger
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import psutil  # type: ignore[import-untyped]
import yaml
from label_studio_requests import Annotation, annotated, predict, task
from sqlalchemy import Row, Select, func, select
from warm_start import WarmProcess

from backend.ledger import Ledger
from backend.ledger.database import tables
from backend.settings import child_environment
from backend.testing import OpenAIServer

MODELS = ("red", "green", "blue")
PATIENCE = 180.0
"""Seconds after which a test gives up waiting for a process."""


def child(**variables: str) -> dict[str, str]:
    """A child process's environment: of CaMVo's variables only these, and no network."""
    return child_environment(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", **variables)


def run_cli(*arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a folder until it ends by itself."""
    return subprocess.run(  # noqa: S603 - our own command line
        [sys.executable, "-m", "backend.cli", *arguments],
        cwd=cwd,
        env=child(**variables),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def wait_until(condition: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Poll a condition until it holds; fail after ``patience`` seconds without ``what``."""
    until = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < until, f"no {what} within {patience:.0f} s"
        time.sleep(0.02)


def config_for(models: OpenAIServer, folder: Path, *, max_concurrency: int = 64, **settings: object) -> Path:
    """Write a camvo.yaml that asks every model at the local server, at $1 and $2 per million tokens.

    By default a test may hold back all answers until many calls are under way, and every label is filled in.
    """
    entries = [
        {
            "name": name,
            "model": f"openai/{name}",
            "api_base": models.url,
            "input_price": 1.0,
            "output_price": 2.0,
            "max_concurrency": max_concurrency,
        }
        for name in MODELS
    ]
    path = folder / "camvo.yaml"
    policy = {"name": "camvo", "k_min": 3}
    defaults = {"models": entries, "retries": 0, "prefill": 0.0, "policy": policy}
    path.write_text(yaml.safe_dump(defaults | settings))
    return path


def task_of(body: Mapping[str, Any]) -> int:
    """The number of the task that a model is asked about, read from the task's text."""
    entry = re.search(r"Entry (\d+) of the diary", body["messages"][-1]["content"])
    assert entry is not None
    return int(entry[1])


def open_calls(ledger: Ledger) -> int:
    """The number of calls that are neither settled nor lost."""
    with ledger.read() as connection:
        calls = select(func.count()).select_from(tables.calls).where(tables.calls.c.state == "reserved")
        return int(connection.execute(calls).scalar_one())


class ServerProcess:
    """One installation, which can be started, stopped, killed and started again on the same ledger."""

    def __init__(
        self, folder: Path, config: Path | None, *, database_url: str | None = None, **variables: str
    ) -> None:
        self.folder = folder
        self.database_url = database_url or f"sqlite:///{folder / 'ledger.sqlite'}"
        self.log_path = folder / "server.log"
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        chosen = {} if config is None else {"CAMVO_CONFIG": str(config)}
        self._environment = child(
            CAMVO_DATABASE_URL=self.database_url,
            CAMVO_PORT="0",
            TMPDIR=str(self.temporary),
            **chosen,
            **variables,
        )
        self._process: subprocess.Popen[bytes] | WarmProcess | None = None
        self._ledger: Ledger | None = None
        self._started_at = 0
        auth = (
            (variables["BASIC_AUTH_USER"], variables["BASIC_AUTH_PASS"])
            if "BASIC_AUTH_USER" in variables
            else None
        )
        self._http = httpx.Client(timeout=PATIENCE, headers={"Connection": "close"}, auth=auth)

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()
        if self._ledger is not None:
            self._ledger.close()
        self._http.close()

    # processes

    def start(self, *arguments: str, ready: bool = True, fresh: bool = False) -> None:
        """Start the server and wait until it listens and, if ``ready``, can predict.

        Args:
            arguments: options of ``camvo serve``.
            ready: whether to wait until it can predict.
            fresh: whether to start a new interpreter, as a shell does, which takes eight seconds longer.
        """
        self.log_path.touch()
        self._started_at = self.log_path.stat().st_size
        command = ["serve", *arguments]
        if fresh:
            self._process = self._new_interpreter(command)
        else:
            log = self.log_path
            self._process = WarmProcess(command, self.folder, self._environment, log, log)
        wait_until(lambda: self._address() or not self.running, "listening server")
        self._http.base_url = httpx.URL(self._address() or "")
        if ready:
            self.await_ready()

    def _new_interpreter(self, command: list[str]) -> subprocess.Popen[bytes]:
        with self.log_path.open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - our own command line
                [sys.executable, "-m", "backend.cli", *command],
                cwd=self.folder,
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def await_ready(self) -> None:
        wait_until(lambda: not self.running or self._ready(), "ready server")
        assert self.running, self.log

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    @property
    def listens(self) -> bool:
        """Whether the master listens; closing its socket is the first thing it does when it stops."""
        return any(c.status == psutil.CONN_LISTEN for c in psutil.Process(self.process.pid).net_connections())

    @property
    def process(self) -> subprocess.Popen[bytes] | WarmProcess:
        assert self._process is not None
        return self._process

    @property
    def workers(self) -> list[int]:
        return sorted(worker.pid for worker in psutil.Process(self.process.pid).children())

    @property
    def log(self) -> str:
        """The output since the last start."""
        return self.log_path.read_bytes()[self._started_at :].decode()

    @property
    def url(self) -> str:
        """The address at which it listens."""
        return str(self._http.base_url).rstrip("/")

    def kill_worker(self) -> None:
        """Send SIGKILL to the only worker and wait until the master has started another."""
        (worker,) = self.workers
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: self.workers and self.workers != [worker], "new worker")

    def kill(self) -> None:
        """Send SIGKILL to the master and its workers."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)

    def signal(self, number: signal.Signals, *, group: bool = False) -> None:
        """Send a signal to the master, as ``kill`` does, or to the whole group, as a terminal does."""
        if group:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)

    def end(self) -> int:
        """Wait until the master ends; return its exit code."""
        return self.process.wait(PATIENCE)

    def _address(self) -> str | None:
        line = re.search(r"listening on (http://\S+)", self.log)
        return line and line[1]

    def _ready(self) -> bool:
        try:
            return self._http.get("/ready").status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False

    # requests

    def get(self, path: str) -> httpx.Response:
        return self._http.get(path)

    def predict(self, tasks: Iterable[int]) -> list[Any]:
        response = self._http.post("/predict", json=predict([task(number) for number in tasks]))
        assert response.status_code == 200, response.text
        results: list[Any] = json.loads(response.content)["results"]
        return results

    def annotate(self, number: int, mood: str, annotation: int | None = None) -> httpx.Response:
        """Post a human's annotation of a task; by default it has the task's number."""
        sent = Annotation(number=annotation or number, task=number, mood=mood)
        return self._http.post("/webhook", json=annotated(sent))

    # the ledger

    @property
    def ledger(self) -> Ledger:
        if self._ledger is None:
            self._ledger = Ledger(self.database_url)
        return self._ledger

    def rows(self, query: Select[Any]) -> list[Row[Any]]:
        with self.ledger.read() as connection:
            return list(connection.execute(query).all())
