"""Start ``camvo serve`` as a fork of a process that has imported the libraries already.

A server's libraries take eight seconds of CPU to import. A test that starts ten servers imports them once:
``multiprocessing``'s fork server imports them, and each server is a fork of it. CaMVo itself is imported by each
server, with the environment of that server.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from unittest.mock import patch


class WarmProcess:
    """A server forked from the warm process, with the part of ``subprocess.Popen``'s interface that tests use.

    Args:
        arguments: the command line, without the program's name.
        cwd: the server's working folder.
        env: the server's whole environment.
        log: the file to which the server's output is appended.
    """

    def __init__(self, arguments: list[str], cwd: Path, env: Mapping[str, str], log: Path) -> None:
        self._process: ForkServerProcess = _context().Process(
            target=_serve, args=(arguments, str(cwd), dict(env), str(log)), daemon=True
        )
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code, negative for a signal; ``None`` while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        """Wait for the end and return the exit code.

        Raises:
            subprocess.TimeoutExpired: it still runs after ``timeout`` seconds.
        """
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired("camvo serve", timeout)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


@functools.cache
def _context() -> ForkServerContext:
    """The fork server of this test process, which begins to import the libraries now."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["warm_libraries"])
    quiet = {"OMP_NUM_THREADS": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "HF_HUB_OFFLINE": "1"}
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    with patch.dict(os.environ, quiet | {"PYTHONPATH": path}):
        forkserver.ensure_running()
    return context


def _serve(arguments: list[str], cwd: str, env: dict[str, str], log: str) -> None:
    """Become a server: what a shell does between fork and exec, and then the command line's main function."""
    os.setsid()
    os.chdir(cwd)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.environ.clear()
    os.environ.update(env)
    tempfile.tempdir = None  # looked up in the environment again
    sys.argv = ["camvo", *arguments]

    from backend.cli import main  # noqa: PLC0415 - with the environment of this server

    main()
