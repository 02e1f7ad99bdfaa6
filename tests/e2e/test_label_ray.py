"""``camvo label --engine ray`` on two nodes, into a bucket: one node is killed, then the driver.

Every task has one round, and the bucket has every row once. The nodes have no credentials but the driver's.
"""

from __future__ import annotations

import csv
import io
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from object_store import ObjectStore
from postgres import Postgres
from server_process import child, wait_until
from sqlalchemy import func, select
from warm_start import WarmProcess
from whole_backend import prompt_of

from backend.ledger import Ledger
from backend.ledger.database import tables
from backend.testing import OpenAIServer, Reply

pytest.importorskip("ray", reason='needs the extra "ray": pip install -e ".[ray]"')
pyarrow_parquet = pytest.importorskip("pyarrow.parquet")

from two_raylets import TwoRaylets  # noqa: E402 - it needs ray

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

TASKS = 800
AT_ONCE = 32
MODELS = ("red", "green")
KILLED_NODE, KILLED_DRIVER = 240, 720
"""Answers after which the node and then the driver are killed."""


def moods(body: dict[str, Any]) -> Reply:
    return Reply.says({"label": "Sad" if "gloomy" in prompt_of(body) else "Glad"})


def test_a_killed_node_and_a_killed_driver_cost_nothing_but_time(tmp_path: Path) -> None:
    texts = [f"{word} {number}" for number in range(TASKS // 2) for word in ("lovely", "gloomy")]
    with (tmp_path / "in.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["text"], *([text] for text in texts)])
    with (
        OpenAIServer(moods) as server,
        Postgres(tmp_path / "postgres") as postgres,
        TwoRaylets() as raylets,  # its first node starts without the bucket's credentials
        ObjectStore() as store,
    ):
        url = postgres.new_ledger_url()
        start = _starter(tmp_path, server.url, url, raylets.address)

        killed = start()
        wait_until(lambda: server.count() >= KILLED_NODE, "answers of both nodes", 240)
        raylets.kill_node()
        wait_until(lambda: server.count() >= KILLED_DRIVER, "answers of the node that is left", 240)
        killed.send_signal(signal.SIGKILL)
        killed.wait(60)
        raylets.add_node()
        assert start().wait(400) == 0, (tmp_path / "log").read_text()

        asked = Counter((request.model, prompt_of(request.body)) for request in server.requests)
        ledger = Ledger(url)
        with ledger.read() as connection:
            rounds, decided = connection.execute(
                select(func.count(), func.count(tables.rounds.c.task.distinct()))
            ).one()
            answers = connection.scalar(select(func.count()).select_from(tables.answers))
        ledger.close()
        parts = store.objects()
    assert (rounds, decided) == (TASKS, TASKS)
    assert answers == len(asked) == TASKS * len(MODELS)
    # Nobody received the answers to the calls that were under way when a process was killed.
    assert sum(asked.values()) - len(asked) <= 3 * AT_ONCE * len(MODELS)
    rows = [
        row
        for _, part in sorted(parts.items())
        for row in pyarrow_parquet.read_table(io.BytesIO(part)).to_pylist()
    ]
    assert [row["text"] for row in rows] == texts
    assert [row["camvo_label"] == "Sad" for row in rows] == ["gloomy" in row["text"] for row in rows]


def _starter(folder: Path, models: str, ledger: str, cluster: str) -> Any:
    common = {"api_base": models, "input_price": 1.0, "output_price": 2.0}
    settings = {
        "models": [{"name": name, "model": f"openai/{name}", **common} for name in MODELS],
        "policy": {"name": "majority"},
        "concurrency": AT_ONCE,
        "retries": 0,
    }
    (folder / "camvo.yaml").write_text(yaml.safe_dump(settings))
    command = ["label", "in.csv", "--labels", "Glad,Sad", "--text-column", "text"]
    command += ["--engine", "ray", "--out", "s3://bucket/labels/", "--yes"]
    log = folder / "log"

    def start() -> WarmProcess:
        log.touch()
        environment = child(
            CAMVO_DATABASE_URL=ledger,
            CAMVO_CONFIG=str(folder / "camvo.yaml"),
            OPENAI_API_KEY="none",
            RAY_ADDRESS=cluster,
            **{name: value for name, value in os.environ.items() if name.startswith("AWS_")},
        )
        return WarmProcess(command, folder, environment, log, log)

    return start
