"""How a command ends after Ctrl-C or with its terminal: processes of their own, with real signals."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from server_process import PATIENCE, child

INTERRUPTED_AMID = """
import os, sys

class Interrupts:
    def find_spec(self, name, *rest):
        if name == {name!r}:
            sys.meta_path.remove(self)  # only once
            os.kill(os.getpid(), {number})

sys.meta_path.insert(0, Interrupts())
from backend.__main__ import main
main()
"""

ENDS_ITS_WORK = """
import signal, time
from pathlib import Path
from backend.commands.shared.setup import interruptible

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup may have started the tests
with interruptible():
    try:
        print("working", flush=True)
        while True:
            time.sleep(0.05)  # a signal right before one long sleep would not end it
    except BaseException:
        print("stopping", flush=True)
        Path("stored").touch()
        raise
"""


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (signal.SIGINT, "signal"),  # the first module that the entry point imports
        (signal.SIGINT, "backend.cli"),
        (signal.SIGINT, "typer"),
        (signal.SIGINT, "backend.commands.teach"),
        (signal.SIGTERM, "backend.cli"),
        (signal.SIGTERM, "backend.commands.teach"),
    ],
)
def test_ctrl_c_and_sigterm_amid_the_imports_are_one_line(
    tmp_path: Path, number: signal.Signals, name: str
) -> None:
    script = INTERRUPTED_AMID.format(name=name, number=int(number))
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", script, "teach", "blind.csv"],
        cwd=tmp_path,
        env=child(),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "camvo: interrupted (run the same command again)\n"


def test_a_command_ends_its_work_when_its_terminal_is_closed(tmp_path: Path) -> None:
    terminal, stream = pty.openpty()
    process = subprocess.Popen(  # noqa: S603 - our own
        [sys.executable, "-c", ENDS_ITS_WORK],
        cwd=tmp_path,
        env=child(),
        stdin=stream,
        stdout=stream,
        stderr=stream,
        start_new_session=True,
    )
    os.close(stream)
    with open(terminal, "rb") as said:  # closes the terminal
        assert said.readline() == b"working\r\n"
    os.kill(process.pid, signal.SIGHUP)  # the kernel sends it to the terminal's processes
    assert process.wait(PATIENCE) == -signal.SIGINT  # as after Ctrl-C, without the command line's main
    assert (tmp_path / "stored").exists()
