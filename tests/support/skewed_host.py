"""A light worker whose clock is ahead or behind, as on a host of its own.

::

    python skewed_host.py '{"url": …, "folder": …, "number": 1, "ahead": 20.0, "tasks": 60}'

It prints a line when it is ready, predicts once it reads a line, and notes in its :class:`Journal` what it
bought and was given.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from journal import Journal
from light_workers import light_runtime, predict, purchases, python_path
from server_process import PATIENCE, child

_ANSWER = 1.0
"""Seconds that a model takes, so that both hosts want the same answers at the same time."""


def predict_together(url: str, folder: Path, tasks: int, ahead: Sequence[float]) -> Path:
    """Let hosts with these clocks predict the same tasks at the same moment; return their journal."""
    hosts = []
    for number, seconds in enumerate(ahead):
        values = {"url": url, "folder": str(folder), "number": number, "ahead": seconds, "tasks": tasks}
        hosts.append(
            subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, __file__, json.dumps(values)],
                env=child(PYTHONPATH=python_path()),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
    try:
        for host in hosts:
            assert host.stdout is not None
            assert host.stdout.readline() == "ready\n"
        for host in hosts:
            assert host.stdin is not None
            host.stdin.write("go\n")
            host.stdin.flush()
        assert [host.wait(PATIENCE) for host in hosts] == [0] * len(hosts)
    finally:
        for host in hosts:
            host.kill()
            host.communicate()
    return folder / "journal.jsonl"


def _run(url: str, folder: str, number: int, ahead: float, tasks: int) -> None:
    true_time = time.time

    def clock() -> float:
        return true_time() + ahead

    journal = Journal(Path(folder) / "journal.jsonl")
    with (
        patch("time.time", clock),
        light_runtime(
            url, Path(folder), purchases(journal, number), seconds=lambda: _ANSWER, clock=clock
        ) as runtime,
    ):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        for predicted, label in predict(runtime, range(1, tasks + 1)).items():
            journal.note("predicted", task=predicted, label=label)


if __name__ == "__main__":
    _run(**json.loads(sys.argv[1]))
