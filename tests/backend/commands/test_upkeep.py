"""``camvo ledger prune``, ``verify``, ``export`` and ``copy``, as a user calls them."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from command_line import called
from old_ledger import LABELLED, NEW, OLD


@pytest.fixture
def folder(old_ledger_folder: Path) -> Path:
    return old_ledger_folder


def ledger(folder: Path, *arguments: str) -> CompletedProcess[str]:
    url = f"sqlite:///{folder / 'ledger.sqlite'}"
    return called("ledger", *arguments, cwd=folder, CAMVO_DATABASE_URL=url, CAMVO_CONFIG="camvo.yaml")


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_dry_run_says_what_would_go_and_changes_nothing(folder: Path) -> None:
    before = (folder / "ledger.sqlite").read_bytes()
    run = ledger(folder, "prune", "--older", "90d", "--dry-run")
    assert f"{len(OLD)} rounds to be pruned" in run.stdout
    assert "a file with so few rounds may grow" in run.stdout
    assert "Nothing was changed." in run.stdout
    assert (run.returncode, (folder / "ledger.sqlite").read_bytes()) == (0, before)


def test_a_pruned_file_is_smaller_and_sound(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as database, database:
        # Answers long enough that they take pages of their own.
        database.execute("UPDATE answers SET content = content || hex(zeroblob(1000))")
    before = (folder / "ledger.sqlite").stat().st_size
    run = ledger(folder, "prune", "--older", "12w", "--yes", "--compact")
    assert (run.returncode, run.stderr) == (0, "")
    assert f"{3 * len(OLD)} answers were deleted" in run.stdout
    assert (folder / "ledger.sqlite").stat().st_size < before
    assert "The ledger is sound: 1 project." in ledger(folder, "verify").stdout
    assert "Nothing is older than 90d." in ledger(folder, "prune", "--older", "90d", "--yes").stdout


@pytest.mark.parametrize("age", ["90", "d", "0d", "-3d", "3h", ""])
def test_an_age_below_a_day_is_refused(folder: Path, age: str) -> None:
    run = ledger(folder, "prune", f"--older={age}", "--yes")
    assert run.returncode == 2
    assert "write 90d, 12w or 2y" in run.stderr


def test_a_prune_needs_to_be_agreed_to(folder: Path) -> None:
    assert "add --yes or --dry-run" in ledger(folder, "prune", "--older", "90d").stderr


def test_a_copy_of_the_file_is_verified_and_its_damage_is_exit_code_1(folder: Path) -> None:
    shutil.copy(folder / "ledger.sqlite", folder / "copy.sqlite")
    database = sqlite3.connect(folder / "copy.sqlite")
    with database:
        database.execute("UPDATE accounts SET spent = spent + 1 WHERE scope = 'total'")
    database.close()
    assert ledger(folder, "verify").returncode == 0
    run = ledger(folder, "verify", f"sqlite:///{folder / 'copy.sqlite'}")
    assert run.returncode == 1
    assert run.stdout.startswith("money: account ")


def test_an_export_has_every_round_annotation_and_call(folder: Path) -> None:
    exported = lines(ledger(folder, "export").stdout)
    assert exported[0] == {"type": "header", "format": "camvo-ledger", "version": 1, "projects": 1}
    assert Counter(line["type"] for line in exported) == {
        "header": 1,
        "project": 1,
        "round": len(OLD) + len(NEW),
        "annotation": len(LABELLED),
        "call": 3 * (len(OLD) + len(NEW)),
    }
    human = {line["task"]: line["human"] for line in exported if line["type"] == "round" and line["human"]}
    assert human == LABELLED
    spent = sum(line["cost_usd"] for line in exported if line["type"] == "call")  # type: ignore[misc]
    assert spent == pytest.approx(sum(x["cost_usd"] for x in exported if x["type"] == "round"))  # type: ignore[misc]


def test_an_export_into_a_file_is_the_same_compressed(folder: Path) -> None:
    assert ledger(folder, "export", "--out", "ledger.jsonl.gz").returncode == 0
    assert (
        gzip.decompress((folder / "ledger.jsonl.gz").read_bytes()).decode() == ledger(folder, "export").stdout
    )


def test_a_ledger_of_another_revision_is_not_read(folder: Path) -> None:
    database = sqlite3.connect(folder / "ledger.sqlite")
    with database:
        database.execute("UPDATE alembic_version SET version_num = '0013'")
    database.close()
    run = ledger(folder, "verify")
    assert run.returncode == 2
    assert "are of revision 0013" in run.stderr


def test_a_new_ledger_is_made_and_migrating_it_again_changes_nothing(tmp_path: Path) -> None:
    for _ in range(2):
        run = ledger(tmp_path, "migrate")
        assert (run.returncode, run.stderr) == (0, "")
        assert "has this version's tables" in run.stdout
    assert "The ledger is sound: 0 projects." in ledger(tmp_path, "verify").stdout


def test_a_ledger_is_copied_and_the_copy_is_sound(folder: Path) -> None:
    run = ledger(folder, "copy", "--to", f"sqlite:///{folder / 'target.sqlite'}")
    assert (run.returncode, run.stderr) == (0, "")
    assert "The copy is sound." in run.stdout
    assert ledger(folder, "verify", f"sqlite:///{folder / 'target.sqlite'}").returncode == 0
