"""gunicorn: threads that wait, and a runtime that is made after the fork."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication

from backend.ledger import Ledger
from backend.settings import Environment, export, load


class Server(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """The production server for one environment: gthread workers, no preload.

    Neither torch nor an event loop survives a fork, so the application is made in each worker. Workers are
    given longer to stop than a prediction may take.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._settings = load(environment.config)
        super().__init__()

    def load_config(self) -> None:
        """Called by gunicorn: our options instead of a command line."""
        environment = self._environment
        options = {
            "bind": f"{environment.host}:{environment.port}",
            "workers": environment.workers,
            "threads": environment.threads,
            "worker_class": "gthread",
            "timeout": 60,
            "graceful_timeout": int(self._settings.deadline) + 15,
            "keepalive": 75,
            "preload_app": False,
            "control_socket_disable": True,
            "worker_tmp_dir": None,
            "loglevel": "warning",
            "worker_exit": _worker_exit,
            "child_exit": _child_exit,
        }
        for name, value in options.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        """Called by gunicorn in each worker."""
        from backend.app import create_app  # noqa: PLC0415 - heavy, and only after the fork

        return create_app(self._environment)


def serve(environment: Environment) -> None:
    """Migrate the ledger once, then serve until a signal comes."""
    ledger = Ledger(environment.database_url)
    ledger.migrate()
    ledger.close()
    folder = Path(tempfile.mkdtemp(prefix="camvo-metrics-"))
    export(OMP_NUM_THREADS="1", PROMETHEUS_MULTIPROC_DIR=str(folder))
    try:
        Server(environment.model_copy(update={"prometheus_multiproc_dir": folder})).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _worker_exit(server: Any, worker: Any) -> None:
    """Let the runtime of a worker that stops finish what is under way."""
    application = getattr(worker, "wsgi", None)
    if isinstance(application, Flask):
        application.extensions["camvo"].close()


def _child_exit(server: Any, worker: Any) -> None:
    """Take the gauges of a worker that is gone out of /metrics."""
    from prometheus_client import multiprocess  # noqa: PLC0415 - reads its folder from the environment

    multiprocess.mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
