"""The production server: gunicorn with threaded workers, each with a runtime of its own."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flask import Flask
from gunicorn import glogging
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.config import Config

from backend.errors import ConfigError
from backend.ledger import migrate
from backend.server.front import FrontWorker
from backend.settings import Environment, export, load
from backend.telemetry import logs
from camvo.errors import CamvoError

_CONNECTIONS = 500
"""Connections of a worker at once, beside those of predictions."""

_FILES = 65_536
"""Open files of a worker at most; the usual limit of 1,024 is too few for its connections and its models'."""


class _ServerLog(glogging.Logger):  # type: ignore[misc]  # gunicorn has no types
    """What gunicorn logs, such as a worker that was killed, in the form of CaMVo's own lines."""

    def setup(self, cfg: Config) -> None:
        super().setup(cfg)
        for handler in self.error_log.handlers:
            handler.setFormatter(logs.formatter())


class _GunicornServer(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """The server for one environment: workers with a front of their own, no preload.

    The application is created in each worker, since neither torch nor an event loop survives a fork. Workers
    get more time to stop than a prediction may take.
    """

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self._settings = load(environment.config)
        self._application: Flask | None = None
        super().__init__()

    def load_config(self) -> None:
        """Set the options; called by gunicorn, which would otherwise read its command line."""
        environment = self.environment
        options = {
            "bind": f"[{environment.host}]:{environment.port}",  # brackets, for IPv6 too
            "workers": environment.workers,
            "threads": environment.threads,
            "worker_connections": environment.threads + _CONNECTIONS,
            "worker_class": FrontWorker,
            "timeout": 60,
            "graceful_timeout": int(self._settings.deadline) + 15,
            "keepalive": 75,
            "preload_app": False,
            "control_socket_disable": True,
            "worker_tmp_dir": None,
            "loglevel": "warning",
            "logger_class": _ServerLog,
            "when_ready": _when_ready,
            "worker_exit": _worker_exit,
            "child_exit": _child_exit,
        }
        for name, value in options.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        """Create the application; called by gunicorn in each worker."""
        from backend.server.app import create_app  # noqa: PLC0415 - heavy, and only allowed after the fork

        try:
            self._application = create_app(self.environment)
            return self._application
        except CamvoError as error:
            _print_status(str(error))
            # With any other code, gunicorn would restart the worker forever.
            sys.exit(Arbiter.APP_LOAD_ERROR)

    def stop_asking(self) -> None:
        """Call no more models; called in a worker by its signal handler."""
        if self._application is not None:
            self._application.extensions["camvo"].stop_asking()

    def close(self, patience: float) -> None:
        """Close a worker's runtime, which lets the calls in flight end for ``patience`` seconds."""
        if self._application is not None:
            self.stop_asking()  # a worker without a master stops without a signal
            self._application.extensions["camvo"].close(patience)


def serve(environment: Environment) -> None:
    """Migrate the ledger, then serve until a signal arrives.

    Raises:
        ConfigError: ``camvo.yaml`` has a mistake, or the port is not available.
        LedgerError: the ledger cannot be opened.
        SystemExit: gunicorn has ended: 0 after a signal, 4 if a worker could not start.
    """
    with _metrics_folder() as folder:
        server = _GunicornServer(environment.model_copy(update={"prometheus_multiproc_dir": folder}))
        _check_port(environment.host, environment.port)
        migrate(environment.database_url)
        _allow_files()
        export(OMP_NUM_THREADS="1", PROMETHEUS_MULTIPROC_DIR=str(folder))
        server.run()


def _allow_files() -> None:
    """Let the workers open as many files as the system allows: every connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


@contextmanager
def _metrics_folder() -> Iterator[Path]:
    """A new folder that is deleted when the master ends; a worker that ends leaves this block too."""
    folder, master = Path(tempfile.mkdtemp(prefix="camvo-metrics-")), os.getpid()
    try:
        yield folder
    finally:
        if os.getpid() == master:
            shutil.rmtree(folder, ignore_errors=True)


def _check_port(host: str, port: int) -> None:
    """Check that the port is free, since gunicorn would retry a taken one."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ConfigError(
                f"cannot listen there: {error.strerror}",
                where=f"{host}:{port}",
                fix="stop the program that listens there, or choose another --host or --port",
            ) from None


def _print_status(text: str) -> None:
    """Print one line on stderr."""
    print(f"camvo: {text}", file=sys.stderr, flush=True)  # noqa: T201


def _when_ready(server: Any) -> None:
    """Print the server's address. Its workers are still starting."""
    _print_status(
        f"listening on {', '.join(map(str, server.LISTENERS))} (GET /ready says when it can predict)"
    )


def _worker_exit(server: Any, worker: FrontWorker) -> None:
    """Close the runtime of a worker that stops, so that it finishes the work under way."""
    worker.app.close(worker.patience)


def _child_exit(server: Any, worker: Any) -> None:
    """Remove the gauges of a worker that has ended from /metrics."""
    from prometheus_client import multiprocess  # noqa: PLC0415 - reads its folder from the environment on import

    multiprocess.mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
