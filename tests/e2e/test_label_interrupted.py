"""``camvo label`` as a program: stopped by Ctrl-C, killed, and run to the end."""

from __future__ import annotations

import csv
import json
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from server_process import MODELS, child, config_for, wait_until
from sqlalchemy import func, select
from warm_start import WarmProcess

from backend.ledger import Ledger
from backend.ledger.database import tables
from backend.testing import OpenAIServer, Reply

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

TEXTS = [f"Day {number}." for number in range(60)]
TASKS_AT_ONCE = 4
AT_ONCE = TASKS_AT_ONCE * len(MODELS)
"""The most calls in flight."""


class Models:
    """A script of models that agree, and that can fall silent."""

    def __init__(self) -> None:
        self.silent, self.never = threading.Event(), threading.Event()
        self.sold: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, body: dict[str, Any]) -> Reply:
        asked = body["model"] + json.dumps(body["messages"], sort_keys=True)
        reply = Reply.says({"label": "Glad"})
        with self._lock:
            if self.silent.is_set():
                self.lost[asked] += 1
                return reply.held_until(self.never)
            self.sold[asked] += 1
        return reply


def _number_of_answers(ledger: Ledger) -> int:
    with ledger.read() as connection:
        return int(connection.execute(select(func.count()).select_from(tables.answers)).scalar_one())


def test_only_calls_in_flight_are_made_again_and_every_row_is_labelled(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("\n".join(["text", *TEXTS]) + "\n")
    models, url = Models(), f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    with OpenAIServer(models) as server:
        config = config_for(server, tmp_path, concurrency=TASKS_AT_ONCE)

        def start() -> WarmProcess:
            command = ["label", "in.csv", "--labels", "Glad,Sad", "--text-column", "text", "--out", "out.csv"]
            environment = child(CAMVO_DATABASE_URL=url, CAMVO_CONFIG=str(config), OPENAI_API_KEY="none")
            log = tmp_path / "log"
            log.touch()
            return WarmProcess(command, tmp_path, environment, log, log)

        first = start()
        wait_until(lambda: server.count() >= 30, "calls of the first run")
        first.send_signal(signal.SIGINT)
        assert first.wait(60) == 130
        assert not (tmp_path / "out.csv").exists()
        assert set(models.sold.values()) == {1}

        second, before = start(), server.count()
        wait_until(lambda: server.count() >= before + 30, "calls of the second run")
        models.silent.set()
        wait_until(lambda: models.lost.total() >= 4, "calls that no answer comes to")
        second.send_signal(signal.SIGKILL)
        second.wait(60)
        models.silent.clear()
        ledger = Ledger(url)
        # An answer may have been sent and not be stored yet: until then its call is one in flight. If the
        # process has kept it in its file, it is not bought again.
        in_flight = models.sold.total() - _number_of_answers(ledger)
        assert 0 <= in_flight <= AT_ONCE - models.lost.total()
        ledger.close()

        assert start().wait(120) == 0, (tmp_path / "log").read_text()
        bought = server.count()
        labelled = (tmp_path / "out.csv").read_bytes()
        assert start().wait(60) == 0
        assert server.count() == bought
    assert set(models.sold.values()) <= {1, 2}
    assert models.sold.total() - len(models.sold) <= in_flight
    assert set(models.lost) <= set(models.sold)
    assert (tmp_path / "out.csv").read_bytes() == labelled
    rows = list(csv.DictReader(labelled.decode().splitlines()))
    assert [row["camvo_label"] for row in rows] == ["Glad"] * len(TEXTS)


def test_sigterm_ends_the_wait_for_a_model_that_is_down_and_the_same_command_continues(
    tmp_path: Path,
) -> None:
    (tmp_path / "in.csv").write_text("\n".join(["text", *TEXTS[:12]]) + "\n")
    down, first = threading.Event(), MODELS[0]
    down.set()

    def script(body: dict[str, Any]) -> Reply:
        if body["model"] == first and down.is_set():
            return Reply.fails(503)
        return Reply.says({"label": "Glad"})

    log = tmp_path / "log"
    log.touch()
    with OpenAIServer(script) as server:
        config = config_for(server, tmp_path, policy={"name": "majority"})
        command = ["label", "in.csv", "--labels", "Glad,Sad", "--text-column", "text", "--out", "out.csv"]
        environment = child(
            CAMVO_DATABASE_URL=f"sqlite:///{tmp_path / 'ledger.sqlite'}",
            CAMVO_CONFIG=str(config),
            OPENAI_API_KEY="none",
        )
        waiting = WarmProcess(command, tmp_path, environment, log, log)
        wait_until(lambda: f"waiting for {first} (HTTP 503) since" in log.read_text(), "the wait")
        waiting.send_signal(signal.SIGTERM)
        assert waiting.wait(10) == 130
        assert "--no-wait" in log.read_text()
        asked = server.count(first)
        assert asked < len(TEXTS)
        down.clear()
        assert WarmProcess(command, tmp_path, environment, log, log).wait(120) == 0, log.read_text()
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert all(None not in json.loads(row["camvo_votes"]).values() for row in rows)
    assert not any(row["camvo_incomplete"] for row in rows)
