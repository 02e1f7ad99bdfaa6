"""``camvo label --batch --wait`` as a program, killed at random points of its packs in batches.

``CAMVO_KILLS=50 pytest -m e2e tests/e2e/test_batches_killed.py`` kills it more often.
"""

from __future__ import annotations

import csv
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from batch_provider import Batch, BatchServer
from server_process import child
from sqlalchemy import func, select, update
from warm_start import WarmProcess

from backend.ledger import Ledger, money
from backend.ledger.database import tables
from backend.testing import Reply, packed_texts

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(2400)]

KILLS = int(os.environ.get("CAMVO_KILLS", "6"))
TEXTS = [f"{word} {number}" for number in range(4 * KILLS + 4) for word in ("lovely", "gloomy")]
COMMAND = ["label", "in.csv", "--labels", "Glad,Sad", "--text-column", "text", "--out", "out.csv"]
LINE = (10 * 1.0 + 2 * 2.0) / 2e6
"""Cost in $ of a line."""


class Provider(BatchServer):
    """Batches that end when they are looked at again, expired lines, and tasks missing in answers."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(self.moods)
        self.looks: dict[str, int] = {}
        self.requests = self.lines = 0
        self.late = set(chance.sample(TEXTS, 4))
        self.missing = set(chance.sample(TEXTS, 4))
        self.ends, self.lapses, self.refused = self.has_ended, self.is_late, self.note

    def moods(self, body: dict[str, Any]) -> Reply:
        self.lines += 1
        return Reply.answers(
            body, lambda text: {"label": "Sad" if "gloomy" in text else "Glad"}, leave_out=self.missing
        )

    def has_ended(self, batch: Batch) -> bool:
        self.looks[batch.id] = self.looks.get(batch.id, 0) + 1
        return self.looks[batch.id] > 1

    def is_late(self, body: dict[str, Any]) -> bool:
        held = self.late & set(packed_texts(body).values())
        self.late -= held
        return bool(held)

    def note(self, method: str, path: str) -> int:
        self.requests += 1
        return 0


def test_nothing_is_bought_twice_and_nothing_is_lost(tmp_path: Path) -> None:
    chance = random.Random(16)  # noqa: S311 - not a secret
    (tmp_path / "in.csv").write_text("\n".join(["text", *TEXTS]) + "\n")
    url, log, config = f"sqlite:///{tmp_path / 'ledger.sqlite'}", tmp_path / "log", tmp_path / "camvo.yaml"
    log.touch()
    with Provider(chance) as server:
        prices = {"input_price": 1.0, "output_price": 2.0, "batch_discount": 0.5}
        # Few lines at a time make many jobs, and so many points at which a run may die.
        small = {"pack": 4, "batch_tokens": 1600}
        models = [
            {"name": name, "model": f"openai/{name}", "api_base": server.url, **prices, **small}
            for name in ("red", "green")
        ]
        # Without exploration no first window is asked at once: a call that dies on its way may be paid twice.
        settings = {"models": models, "retries": 5, "policy": {"name": "baseline"}}
        config.write_text(yaml.safe_dump(settings))
        environment = child(CAMVO_DATABASE_URL=url, CAMVO_CONFIG=str(config), OPENAI_API_KEY="none")

        def start() -> WarmProcess:
            return WarmProcess([*COMMAND, "--batch", "--wait", "--yes"], tmp_path, environment, log, log)

        killed = 0
        for _ in range(KILLS):
            process, until = start(), server.requests + chance.randint(1, 12)
            while server.requests < until and process.poll() is None:
                time.sleep(0.001)
            time.sleep(chance.uniform(0.0, 0.05))
            killed += process.poll() is None
            process.send_signal(signal.SIGKILL)
            process.wait(60)
            let_leases_end(Ledger(url))
        assert start().wait(900) == 0, log.read_text()
        summary = f"{killed} of {KILLS} runs were killed; {server.requests} requests, {server.lines} lines\n"
        (tmp_path / "summary").write_text(summary)
    ledger = Ledger(url)
    with ledger.read() as connection:
        account = money.balance(connection, "in", money.TOTAL)
        open_calls = connection.execute(
            select(func.count()).select_from(tables.calls).where(tables.calls.c.state != "settled")
        ).scalar_one()
        claims = connection.execute(select(func.count()).select_from(tables.claims)).scalar_one()
    ledger.close()
    assert killed > KILLS / 2
    assert set(server.bought.values()) == {1}
    assert not server.at_once
    assert (account.reserved, open_calls, claims) == (0, 0, 0)
    assert account.spent / 1e12 == pytest.approx(server.lines * LINE)
    assert not server.files
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text("utf-8-sig").splitlines()))
    assert [row["camvo_label"] for row in rows] == ["Glad", "Sad"] * (len(TEXTS) // 2)
    assert sum(float(row["camvo_cost_usd"]) for row in rows) == pytest.approx(account.spent / 1e12)


def let_leases_end(ledger: Ledger) -> None:
    """A new run would wait for the dead one's leases, 15 seconds."""
    if ledger.exists():
        with ledger.write() as connection:
            connection.execute(update(tables.batch_jobs).values(leased_until=0.0))
    ledger.close()
