"""``camvo label`` on a disk that is full: that of the ledger, or that of the output."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from label_studio_requests import SENTIMENT
from ledger_audit import Audit, audited
from provider import Provider
from server_process import MODELS, child, config_for, wait_until
from small_disk import real_disk
from warm_start import WarmProcess

from backend.ledger import Ledger

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

TASKS = 200
AT_ONCE = 10
"""Calls to each model at the same time."""

DISK_FULL = 5
"""The exit code."""


@dataclass
class Run:
    """A folder with a file of tasks, and a provider that keeps books."""

    folder: Path
    provider: Provider
    ledger: str

    def start(self, out: str = "out.csv", *options: str, **variables: str) -> WarmProcess:
        environment = child(
            CAMVO_DATABASE_URL=self.ledger,
            CAMVO_CONFIG=str(self.folder / "camvo.yaml"),
            OPENAI_API_KEY="none",
            **variables,
        )
        command = ["label", "in.csv", "--label-config", "config.xml", "--out", out, "--yes", *options]
        return WarmProcess(command, self.folder, environment, self.log, self.log)

    @property
    def log(self) -> Path:
        path = self.folder / "log"
        path.touch()
        return path

    def audit(self) -> Audit:
        with closing(Ledger(self.ledger)) as ledger:
            return audited(ledger, self.provider.books)

    def labels(self, out: str = "out.csv") -> list[str]:
        with (self.folder / out).open(encoding="utf-8", newline="") as file:
            return [row["camvo_label"] for row in csv.DictReader(file)]


@pytest.fixture
def run(tmp_path: Path, seed: int) -> Iterator[Run]:
    rows = [f"Entry {number} of the diary." for number in range(1, TASKS + 1)]
    (tmp_path / "in.csv").write_text("\n".join(["text", *rows]) + "\n")
    (tmp_path / "config.xml").write_text(SENTIMENT)
    with Provider(seed) as provider:
        config_for(provider, tmp_path, max_concurrency=AT_ONCE, policy={"name": "majority"})
        yield Run(tmp_path, provider, f"sqlite:///{tmp_path / 'ledger.sqlite'}")


def test_a_full_disk_of_the_ledger_ends_the_run_and_loses_no_answer(run: Run) -> None:
    books = run.provider.books
    with real_disk(run.folder / "disk") as disk:
        run.ledger = f"sqlite:///{disk.folder / 'ledger.sqlite'}"
        first = run.start()
        wait_until(lambda: books.number_of_purchases() > TASKS, "run under way")
        run.provider.hold()
        wait_until(lambda: run.provider.held == AT_ONCE * len(MODELS), "calls under way")
        disk.fill()
        run.provider.release()
        filled = time.monotonic()
        assert first.wait(120) == DISK_FULL, run.log.read_text()
        assert time.monotonic() - filled < 60.0
        bought = books.number_of_purchases()
        assert bought < TASKS * len(MODELS)
        assert "the disk is full" in run.log.read_text()
        assert "Traceback" not in run.log.read_text()
        assert not (run.folder / "out.csv").exists()

        disk.empty()
        assert run.start().wait(120) == 0, run.log.read_text()
        audit = run.audit()
    assert (audit.problems, audit.bought_again) == ({}, 0)
    assert books.number_of_purchases() == TASKS * len(MODELS)
    assert len(run.labels()) == TASKS
    assert all(run.labels())


def test_a_disk_that_is_full_at_the_start_costs_nothing(run: Run) -> None:
    with real_disk(run.folder / "disk") as disk:
        run.ledger = f"sqlite:///{disk.folder / 'ledger.sqlite'}"
        disk.fill()
        assert run.start().wait(120) == DISK_FULL, run.log.read_text()
    assert "the disk is full" in run.log.read_text()
    assert "Traceback" not in run.log.read_text()
    assert run.provider.books.number_of_purchases() == 0


def test_a_full_disk_of_the_output_keeps_the_answers_for_the_next_run(run: Run) -> None:
    with real_disk(run.folder / "disk") as disk:
        first = run.start("disk/out.csv")
        wait_until(lambda: run.provider.books.number_of_purchases() > TASKS, "run under way")
        disk.fill()
        assert first.wait(120) == DISK_FULL, run.log.read_text()
        assert "out.csv: the disk is full" in run.log.read_text()
        assert [path.name for path in disk.folder.iterdir()] == ["filler"]
        disk.empty()
        assert run.start("disk/out.csv").wait(120) == 0, run.log.read_text()
        assert all(run.labels("disk/out.csv"))
    assert run.provider.books.number_of_purchases() == TASKS * len(MODELS)


def test_a_full_disk_of_the_parts_keeps_the_answers_for_the_next_run(run: Run) -> None:
    pyarrow_parquet = pytest.importorskip("pyarrow.parquet")
    with real_disk(run.folder / "disk") as disk:
        first = run.start("disk/parts", "--engine", "asyncio")
        wait_until(lambda: run.provider.books.number_of_purchases() > 10, "run under way")
        disk.fill()
        assert first.wait(120) == DISK_FULL, run.log.read_text()
        assert "part 0 is not written: " in run.log.read_text()
        disk.empty()
        assert run.start("disk/parts", "--engine", "asyncio").wait(120) == 0, run.log.read_text()
        parts = [pyarrow_parquet.read_table(part) for part in (disk.folder / "parts").iterdir()]
        assert sum(part.num_rows for part in parts) == TASKS
    assert run.provider.books.number_of_purchases() == TASKS * len(MODELS)
