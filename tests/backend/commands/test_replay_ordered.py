"""``camvo replay --ordered``: labels that are numbers on a scale."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from command_line import called

BASE = ("replay", "votes.csv", "--embeddings", "e.npy", "--policy", "joint", "--policy", "majority")


def written(folder: Path, labels: tuple[str, ...]) -> Path:
    """A folder with 60 items, rated by three models that are mostly right and else one step off."""
    rng = np.random.default_rng(0)
    truth = rng.integers(len(labels), size=60)
    votes = truth[:, None] + rng.integers(-1, 2, size=(60, 3)) * (rng.random((60, 3)) < 0.3)
    votes = np.clip(votes, 0, len(labels) - 1)
    with (folder / "votes.csv").open("w", encoding="utf-8", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["truth", "a", "b", "c"])
        rows.writerows([labels[place] for place in row] for row in np.column_stack((truth, votes)).tolist())
    (folder / "votes.json").write_text(json.dumps({"a": 1.0, "b": 2.0, "c": 5.0}))
    np.save(folder / "e.npy", np.ones((60, 2)))
    return folder


def test_errors_in_steps_are_printed_and_written(tmp_path: Path) -> None:
    folder = written(tmp_path, ("8", "9", "10", "11"))
    done = called(*BASE, "--ordered", "absolute", "--json", "out.json", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(word in done.stdout for word in ("within", "MAE", "kappa"))
    assert max(map(len, done.stdout.splitlines())) <= 80
    content = json.loads((folder / "out.json").read_text())
    assert content["table"]["labels"] == ["8", "9", "10", "11"]
    for row in content["rows"]:
        assert row["within_one"] == 1.0
        assert row["mae"] == pytest.approx(1.0 - row["accuracy"])
        assert row["kappa"] > 0.8
        assert row["ece"] is None


def test_scores_for_the_exact_error_are_probabilities_with_an_ece(tmp_path: Path) -> None:
    folder = written(tmp_path, ("1", "2", "3"))
    assert called(*BASE, "--ordered", "exact", "--json", "out.json", cwd=folder).returncode == 0
    assert all(row["ece"] is not None for row in json.loads((folder / "out.json").read_text())["rows"])


def test_without_the_option_there_are_no_errors_in_steps(tmp_path: Path) -> None:
    folder = written(tmp_path, ("1", "2", "3"))
    done = called(*BASE, "--json", "out.json", cwd=folder)
    assert "MAE" not in done.stdout
    assert all(row["mae"] is None for row in json.loads((folder / "out.json").read_text())["rows"])


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (("bad", "fair", "good"), "exact", "a label is not a number"),
        (("0", "1"), "exact", "a scale has from 3 to 11 labels"),
        (("1", "2", "3"), "quadratc", "quadratic"),
    ],
)
def test_what_is_no_scale_is_refused(
    tmp_path: Path, labels: tuple[str, ...], error: str, message: str
) -> None:
    done = called(*BASE, "--ordered", error, cwd=written(tmp_path, labels))
    assert done.returncode == 2
    assert message in done.stderr
