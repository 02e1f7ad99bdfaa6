"""Every line of a server's log is JSON, whoever wrote it."""

from __future__ import annotations

import json
import logging
import sys

import pytest
from gunicorn.config import Config

from backend.server.gunicorn_server import _ServerLog
from backend.telemetry import logs


def test_a_line_of_another_library_is_json_with_its_name() -> None:
    record = logging.LogRecord("pika", logging.WARNING, "pika.py", 1, "lost %s", ("a connection",), None)
    line = json.loads(logs.formatter().format(record))
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "lost a connection", "level": "warning", "logger": "pika"}


def test_a_traceback_is_in_its_line_without_the_values_of_variables() -> None:
    def failing(text: str) -> None:
        raise ValueError(len(text))

    try:
        failing("a secret")
    except ValueError:
        record = logging.LogRecord("pika", logging.ERROR, "pika.py", 1, "failed", (), sys.exc_info())
    (line,) = logs.formatter().format(record).splitlines()
    assert "ValueError: 8" in json.loads(line)["exception"]
    assert "in failing" in line
    assert "text=" not in line


def test_gunicorn_says_in_json_that_a_worker_was_killed(capsys: pytest.CaptureFixture[str]) -> None:
    _ServerLog(Config()).error("Worker (pid:%s) was sent %s!", 7, "SIGKILL")
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["level"]) == ("Worker (pid:7) was sent SIGKILL!", "error")
