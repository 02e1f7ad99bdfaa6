"""A real Label Studio for the end-to-end tests, with its own virtual environment and data.

::

    with LabelStudio(tmp_path) as studio:
        studio.url, studio.token        # where it listens, and its owner's legacy token

Label Studio and CaMVo cannot share a virtual environment. Label Studio's is created once, in the folder that
``CAMVO_LABEL_STUDIO_VENV`` names or else in the user's cache, and later runs use it again. So it is with the
data of a Label Studio that nobody has used yet, since migrating takes half a minute. Running this file does
both, ahead of the tests, and needs no package.
"""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any

VERSION = "1.23.2"
"""The version of label-studio whose protocol was recorded."""

USER, PASSWORD, TOKEN = "owner@example.com", "an-owners-password", "0123456789abcdef0123456789abcdef01234567"

OPEN: Mapping[str, str] = {"ML_BLOCK_LOCAL_IP": "false", "SSRF_PROTECTION_ENABLED": "false"}
"""Settings that let Label Studio call a backend at a private address."""

_START = 480.0
"""Seconds until it must be healthy; it migrates an empty database first."""


def environment_folder() -> Path:
    """The folder of the virtual environment, which may not exist yet."""
    chosen = os.environ.get("CAMVO_LABEL_STUDIO_VENV")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(chosen) if chosen else cache / "camvo" / f"label-studio-{VERSION}"


def installed() -> Path:
    """Create the virtual environment if it is missing; return its program ``label-studio``."""
    folder = environment_folder()
    program = folder / "bin" / "label-studio"
    mark = folder / f"label-studio-{VERSION}.installed"
    if not mark.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)  # noqa: S603 - our own
        pip = [str(folder / "bin" / "pip"), "install", "--quiet", f"label-studio=={VERSION}"]
        subprocess.run(pip, check=True)  # noqa: S603 - our own
        mark.touch()
    return program


def unused_data() -> Path:
    """The data of a Label Studio that nobody has used yet, which may not exist yet."""
    return environment_folder() / "unused-data"


def prepare() -> None:
    """Install Label Studio and migrate its data, if no earlier run has done so; one process at a time."""
    environment_folder().mkdir(parents=True, exist_ok=True)
    with (environment_folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (installed().exists() and unused_data().exists()):
            with tempfile.TemporaryDirectory() as folder, LabelStudio(Path(folder)):
                pass


class LabelStudio:
    """One Label Studio on a free port of the loopback interface; a context manager.

    Args:
        folder: where its database, files and log go.
        settings: further environment variables; without :data:`OPEN` it refuses private addresses, as an
            unconfigured one does.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str] = OPEN) -> None:
        self.folder, self.user, self.password, self.token = folder, USER, PASSWORD, TOKEN
        self.log_path = folder / "label-studio.log"
        self._settings = dict(settings)
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address at which it listens."""
        return f"http://127.0.0.1:{self._port}"

    def ask(self, method: str, path: str, json: object = None, **params: object) -> Any:
        """Send a request to its API with its owner's token; return the response's JSON."""
        import httpx  # noqa: PLC0415 - not yet installed where this file is run

        response = httpx.request(
            method,
            f"{self.url}{path}",
            json=json,
            params=params,
            headers={"Authorization": f"Token {self.token}"},
            timeout=120.0,
        )
        assert response.is_success, f"{method} {path}: {response.status_code} {response.text[:500]}"
        return response.json() if response.content else None

    def __enter__(self) -> LabelStudio:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it and wait until it is healthy; data of an earlier start are kept."""
        program = installed()
        data = self.folder / "data"
        new = not data.exists()
        if new and unused_data().exists():
            shutil.copytree(unused_data(), data)
        data.mkdir(parents=True, exist_ok=True)
        command = [str(program), "start", "--no-browser", "--internal-host", "127.0.0.1"]
        command += ["--port", str(self._port), "--data-dir", str(data), "--username", self.user]
        command += ["--password", self.password, "--user-token", self.token, "--enable-legacy-api-token"]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own
                command,
                cwd=self.folder,
                env=self._environment(data),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._await_health()
        except BaseException:
            self.stop()
            raise
        if new and not unused_data().exists():
            self._keep(data)

    def stop(self) -> None:
        """Stop it and every process that it started."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait(10)
        self._process = None

    def _keep(self, data: Path) -> None:
        """Copy the data of a Label Studio that has just started, its database in one transaction."""
        copy = environment_folder() / f"unused-data-{os.getpid()}"
        shutil.copytree(data, copy)
        for path in copy.glob("*.sqlite3*"):
            path.unlink()
        for path in data.glob("*.sqlite3"):
            with (
                closing(sqlite3.connect(path)) as source,
                closing(sqlite3.connect(copy / path.name)) as target,
            ):
                source.backup(target)
        with contextlib.suppress(OSError):  # another process was faster
            copy.rename(unused_data())

    def _environment(self, data: Path) -> dict[str, str]:
        own = ("LABEL_STUDIO_", "CAMVO_", "DJANGO_", "PYTHON")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        return inherited | {
            "DJANGO_DB": "sqlite",
            "LABEL_STUDIO_BASE_DATA_DIR": str(data),
            "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
            "HOST": self.url,
            "COLLECT_ANALYTICS": "false",
            "SENTRY_DSN": "",
            "FRONTEND_SENTRY_DSN": "",
            "LATEST_VERSION_CHECK": "false",
            **self._settings,
        }

    def _await_health(self) -> None:
        assert self._process is not None
        until = time.monotonic() + _START
        while time.monotonic() < until and self._process.poll() is None:
            if self._is_healthy():
                return
            time.sleep(0.5)
        tail = self.log_path.read_text(errors="replace")[-3000:]
        raise RuntimeError(f"Label Studio did not become healthy; its log ends:\n{tail}")

    def _is_healthy(self) -> bool:
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=5.0)) as connection:
            try:
                connection.request("GET", "/health")
                return connection.getresponse().status == http.client.OK
            except (OSError, http.client.HTTPException):
                return False


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    prepare()
