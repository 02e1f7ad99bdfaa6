"""The command line run in this process, which saves importing every library again."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from subprocess import CompletedProcess
from unittest.mock import patch

from server_process import child

from backend import cli


def called(
    *arguments: str, cwd: Path, main: Callable[[], None] = cli.main, **variables: str
) -> CompletedProcess[str]:
    """Do what :func:`server_process.run_cli` does without starting a process; ``main`` may be a program's."""
    printed, errors, code = StringIO(), StringIO(), 0
    with (
        chdir(cwd),
        patch.dict(os.environ, child(**variables), clear=True),
        patch.object(sys, "argv", ["camvo", *arguments]),
        redirect_stdout(printed),
        redirect_stderr(errors),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return CompletedProcess(arguments, code, printed.getvalue(), errors.getvalue())
