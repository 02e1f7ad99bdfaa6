"""Files that may hold texts of tasks can be read by their owner only, whatever the umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from backend import cli
from backend.datasets.sinks import whole_file
from backend.ledger import Ledger, migrate


@pytest.fixture(autouse=True)
def permissive() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_ledger_and_the_files_that_sqlite_makes_beside_it_are_private(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    migrate(f"sqlite:///{path}")
    ledger = Ledger(f"sqlite:///{path}")
    with ledger.write() as connection:
        connection.execute(text("DELETE FROM answers"))
    modes = {each.name: mode(each) for each in tmp_path.iterdir()}
    ledger.close()
    names = ("ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm")
    assert modes == dict.fromkeys(names, 0o600)


def test_a_ledger_keeps_the_mode_that_its_owner_gave_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    path.touch(0o640)
    migrate(f"sqlite:///{path}")
    assert mode(path) == 0o640


def test_an_output_is_private(tmp_path: Path) -> None:
    with whole_file(tmp_path / "labels.csv") as file:
        assert [mode(each) for each in tmp_path.iterdir()] == [0o600]
        file.write(b"text\n")
    assert mode(tmp_path / "labels.csv") == 0o600


def test_an_output_keeps_the_mode_of_the_file_that_it_replaces(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.touch(0o644)
    os.umask(0o077)
    with whole_file(path) as file:
        file.write(b"text\n")
    assert mode(path) == 0o644


def test_everything_that_a_command_creates_is_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def command() -> None:
        (tmp_path / "report.html").write_text("text")
        (tmp_path / "folder").mkdir()

    monkeypatch.setattr(cli, "app", command)
    cli.main()
    assert mode(tmp_path / "report.html") == 0o600
    assert mode(tmp_path / "folder") == 0o700
