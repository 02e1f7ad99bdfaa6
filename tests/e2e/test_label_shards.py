"""``camvo label --shard`` as three programs at once on one PostgreSQL ledger, one of which is killed."""

from __future__ import annotations

import csv
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from command_line import called
from postgres import Postgres
from server_process import child, config_for, task_of, wait_until
from sqlalchemy import func, select
from warm_start import WarmProcess

from backend.datasets.sources import open_source
from backend.datasets.tasks import Dataset, Shard, plain_label_config
from backend.ledger import Ledger
from backend.ledger.database import tables
from backend.testing import OpenAIServer, Reply

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

TEXTS = [f"Entry {number} of the diary." for number in range(1, 91)]
SHARDS = [Shard(number, 3) for number in (1, 2, 3)]
KILLED = SHARDS[1]
AT_FIRST = 20
"""Calls of each shard that are answered before one of them is killed."""


def mood(number: int) -> str:
    return "Sad" if number % 3 else "Glad"


class Models:
    """A script of models that agree. After some calls of a shard it waits; the killed shard gets no answer.

    Attributes:
        sold: how often each answer was sent: (model, entry).
        lost: the same for calls that no answer came to.
        calls: the calls of each shard.
    """

    def __init__(self, shard_of: dict[int, Shard]) -> None:
        self._shard_of = shard_of
        self.sold: Counter[tuple[str, int]] = Counter()
        self.lost: Counter[tuple[str, int]] = Counter()
        self.calls: Counter[Shard] = Counter()
        self.killed, self.go_on, self.never = threading.Event(), threading.Event(), threading.Event()
        self._lock = threading.Lock()

    def __call__(self, body: dict[str, Any]) -> Reply:
        number = task_of(body)
        shard, asked = self._shard_of[number], (body["model"], number)
        reply = Reply.says({"label": mood(number)})
        with self._lock:
            self.calls[shard] += 1
            if self.calls[shard] <= AT_FIRST or (shard == KILLED and self.killed.is_set()):
                self.sold[asked] += 1
                return reply
            if shard == KILLED:
                self.lost[asked] += 1
                return reply.held_until(self.never)
            self.sold[asked] += 1
            return reply.held_until(self.go_on)


def test_three_shards_at_once_of_which_one_is_killed_buy_each_answer_once(tmp_path: Path) -> None:
    rows = [*TEXTS, *TEXTS[:5]]
    source = tmp_path / "in.csv"
    with source.open("w", newline="") as file:
        csv.writer(file).writerows([["text"], *([text] for text in rows)])
    models = Models(_shards(source))
    with OpenAIServer(models) as server, Postgres(tmp_path / "postgres") as postgres:
        url = postgres.new_ledger_url()
        config = config_for(server, tmp_path, concurrency=4, policy={"name": "majority"})

        def start(shard: Shard) -> WarmProcess:
            command = ["label", "in.csv", "--labels", "Glad,Sad", "--text-column", "text", "--yes"]
            command += ["--shard", f"{shard.number}/{shard.of}", "--out", f"{shard.number}.csv"]
            log = tmp_path / "log"
            log.touch()
            environment = child(CAMVO_DATABASE_URL=url, CAMVO_CONFIG=str(config), OPENAI_API_KEY="none")
            return WarmProcess(command, tmp_path, environment, log, log)

        ledger = Ledger(url)
        running = {shard: start(shard) for shard in SHARDS}
        wait_until(lambda: min(models.calls[shard] for shard in SHARDS) > AT_FIRST + 3, "calls of all shards")
        wait_until(lambda: _settled(ledger, KILLED) == AT_FIRST, "answers in the ledger")
        running[KILLED].send_signal(signal.SIGKILL)
        running[KILLED].wait(60)
        models.killed.set()
        running[KILLED] = start(KILLED)
        before = models.calls[KILLED]
        wait_until(lambda: models.calls[KILLED] >= before + 5, "calls of the shard that was run again")
        models.go_on.set()
        codes = [running[shard].wait(120) for shard in SHARDS]
        assert codes == [0, 0, 0], (tmp_path / "log").read_text()

        with ledger.read() as connection:
            rounds = Counter(connection.scalars(select(tables.rounds.c.task)))
            answers = connection.scalar(select(func.count()).select_from(tables.answers))
        ledger.close()
        verified = called("ledger", "verify", cwd=tmp_path, CAMVO_DATABASE_URL=url)
    assert verified.returncode == 0, verified.stdout
    assert (len(rounds), set(rounds.values())) == (len(TEXTS), {1})
    assert set(models.sold.values()) == {1}
    assert len(models.sold) == answers
    assert set(models.lost) <= set(models.sold)
    found = [row for shard in SHARDS for row in _rows(tmp_path / f"{shard.number}.csv")]
    assert Counter(row["text"] for row in found) == Counter(rows)
    assert all(row["camvo_label"] == mood(int(row["text"].split()[1])) for row in found)


def _shards(source: Path) -> dict[int, Shard]:
    """The shard of each entry of the diary."""
    dataset = Dataset(open_source(source), plain_label_config(["Glad", "Sad"], "text"))
    return {
        int(task.data["text"].split()[1]): next(shard for shard in SHARDS if shard.holds(task.number))
        for task in dataset.tasks()
    }


def _settled(ledger: Ledger, shard: Shard) -> int:
    """How many calls of a shard are paid, so that their answers are stored."""
    calls = tables.calls
    of_shard = (calls.c.task % shard.of == shard.number - 1) & (calls.c.state == "settled")
    with ledger.read() as connection:
        return connection.scalar(select(func.count()).select_from(calls).where(of_shard)) or 0


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))
