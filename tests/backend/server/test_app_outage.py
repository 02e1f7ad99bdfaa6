"""The whole backend while its database is down: nothing paid is lost, and nothing is acknowledged wrongly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
from label_studio_requests import Annotation, annotated, task
from postgres import Postgres
from server_process import wait_until
from sqlalchemy import text
from whole_backend import Backend, votes

from backend.server import runtime


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with Postgres(tmp_path_factory.mktemp("mortal")) as postgres:
        yield postgres


def test_a_database_that_hangs_hangs_no_request(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "_PATIENCE", 0.5)
    monkeypatch.setattr(runtime, "_READY_PATIENCE", 0.5)
    script = votes(red="Glad", green="Glad", blue="Glad")
    with Backend(tmp_path, script, database_url=postgres.new_ledger_url()) as backend:
        wait_until(lambda: backend.client.get("/ready").status_code == 200, "start")
        processes = _processes(backend)
        for process in processes:
            process.suspend()
        try:
            ready = backend.client.get("/ready")
            refused = backend.post("/webhook", annotated(Annotation(number=5, task=1, mood="Sad")))
        finally:
            for process in processes:
                process.resume()
        assert (ready.status_code, ready.get_json()["ledger"]) == (503, False)
        assert refused.status_code == 503
        wait_until(lambda: backend.client.get("/ready").status_code == 200, "end of the outage")


def _processes(backend: Backend) -> list[psutil.Process]:
    """The processes of the database's server."""
    with backend.ledger.read() as connection:
        worker = psutil.Process(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())
    postmaster = worker.parent()
    return [postmaster, *postmaster.children(recursive=True)]


def test_a_ledger_that_was_moved_away_acknowledges_nothing(tmp_path: Path) -> None:
    voters = votes(red="Glad", green="Glad", blue="Glad")
    with Backend(tmp_path, voters) as backend:
        [prediction] = backend.predict(task(1))
        assert prediction
        (tmp_path / "ledger.sqlite").rename(tmp_path / "moved.sqlite")
        assert (
            backend.post("/webhook", annotated(Annotation(number=5, task=1, mood="Sad"))).status_code == 503
        )
        assert backend.client.get("/ready").get_json()["ledger"] is False
        (tmp_path / "moved.sqlite").rename(tmp_path / "ledger.sqlite")
        backend.hook(annotated(Annotation(number=5, task=1, mood="Sad")))
        assert backend.client.get("/ready").get_json()["ledger"] is True
        assert [round_.human for round_ in backend.rounds(1)] == ["Sad"]


def test_one_vote_that_fails_unexpectedly_is_missing_and_the_others_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    voters = votes(red="Glad", green="Glad", blue="Glad")
    with Backend(tmp_path, voters) as backend:

        def broken(*arguments: Any) -> float:
            raise ZeroDivisionError("a private letter")

        monkeypatch.setattr(backend.runtime.pool["blue"].model, "ceiling", broken)
        [prediction] = backend.predict(task(1))
        assert prediction
        [round_] = backend.rounds(1)
        assert round_.votes == {"red": "Glad", "green": "Glad", "blue": None}
