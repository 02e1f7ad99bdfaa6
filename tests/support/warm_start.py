"""Start the command line as a fork of a process that has imported the libraries already.

A server's libraries take eight seconds of CPU to import. A test that starts ten servers imports them once:
``multiprocessing``'s fork server imports them, and each server is a fork of it. CaMVo itself is imported by
each fork, with an environment of its own, after the test module that ``CAMVO_TEST_FIRST`` names.
"""

from __future__ import annotations

import functools
import importlib
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
    """A command that runs in a fork, with the part of ``subprocess.Popen``'s interface that tests use.

    Args:
        arguments: the command line, without the program's name.
        cwd: the working folder.
        env: the whole environment.
        output: the file to which the standard output is appended.
        errors: the same for the standard error; may be the same file.
    """

    def __init__(
        self, arguments: list[str], cwd: Path, env: Mapping[str, str], output: Path, errors: Path
    ) -> None:
        self._arguments = arguments
        self._process: ForkServerProcess = _context().Process(
            target=_run, args=(arguments, str(cwd), dict(env), str(output), str(errors)), daemon=True
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
            raise subprocess.TimeoutExpired(["camvo", *self._arguments], timeout)
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


def _run(arguments: list[str], cwd: str, env: dict[str, str], output: str, errors: str) -> None:
    """Do what a shell does between fork and exec, and then call the command line's main function."""
    os.setsid()
    os.chdir(cwd)
    for stream, path in ((1, output), (2, errors)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), stream)
    os.environ.clear()
    os.environ.update(env)
    tempfile.tempdir = None  # looked up in the environment again
    sys.argv = ["camvo", *arguments]
    if "CAMVO_TEST_FIRST" in env:
        importlib.import_module(env["CAMVO_TEST_FIRST"])

    from backend.cli import main  # noqa: PLC0415 - reads that environment

    main()
