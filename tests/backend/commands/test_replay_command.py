"""``camvo replay`` as a person meets it: what it prints, writes and refuses."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]
import pytest
from command_line import called
from server_process import child, wait_until
from synthetic_votes import SyntheticModel, draw_votes_table

from backend.commands.replay.runs import _AVERAGED, ReplayRow, Summary

DOCUMENTED = (Path(__file__).parents[3] / "docs" / "replay.md").read_text("utf-8")
MODELS = {
    "large": SyntheticModel(0.9, 10.0),
    "mid": SyntheticModel(0.8, 2.0),
    "small": SyntheticModel(0.7, 1.0),
}
BASE = ("replay", "votes.csv", "--embeddings", "e.npy", "--shuffles", "2", "--seed", "3", "--limit", "60")


def written(folder: Path) -> Path:
    """A folder with a table of 80 items, its prices and its embeddings."""
    table = draw_votes_table(MODELS, items=80, labels=("no", "yes"), seed=1, dimension=4)
    with (folder / "votes.csv").open("w", encoding="utf-8", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["text", "truth", *MODELS])
        for number, (truth, votes) in enumerate(zip(table.truth, table.votes, strict=True)):
            rows.writerow([f"text {number}", *(table.labels[label] for label in (truth, *votes))])
    (folder / "votes.json").write_text(json.dumps({name: model.price for name, model in MODELS.items()}))
    np.save(folder / "e.npy", table.contexts)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("replay"))


@pytest.fixture(scope="module")
def printed(folder: Path) -> str:
    """What a replay in two processes printed; it wrote out.json."""
    done = called(
        *BASE, "--delta", "0.6,0.9", "--k-min", "1", "--human-labels", "0.1", "--jobs", "2",
        "--json", "out.json", cwd=folder,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def out(folder: Path, printed: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "out.json").read_text("utf-8"))
    return content


def test_a_row_of_the_json_has_the_documented_fields(out: dict[str, Any]) -> None:
    names = [field.name for field in fields(ReplayRow)]
    assert [list(row) for row in out["rows"]] == [names] * 8
    for name in names:
        assert f"| `{name}` |" in DOCUMENTED


def test_a_mean_of_the_json_has_the_documented_fields(out: dict[str, Any]) -> None:
    names = [field.name for field in fields(Summary)]
    assert [list(mean) for mean in out["means"]] == [names] * 4
    assert all(f"`{name}`" in DOCUMENTED for name in names)
    assert list(out["means"][0]["means"]) == list(_AVERAGED)


def test_the_rows_are_every_policy_delta_and_seed(out: dict[str, Any]) -> None:
    points = [("camvo", 0.6, 1), ("camvo", 0.9, 1), ("baseline", None, None), ("majority", None, None)]
    assert [(row["policy"], row["delta"], row["k_min"], row["seed"]) for row in out["rows"]] == [
        (*point, seed) for point in points for seed in (3, 4)
    ]


def test_the_json_says_what_was_replayed_and_how(out: dict[str, Any]) -> None:
    table = out["table"]
    assert (table["items"], table["items_with_truth"], table["labels"]) == (80, 80, ["no", "yes"])
    assert (table["prices"], table["full_cost"]) == ({"large": 10.0, "mid": 2.0, "small": 1.0}, 13.0)
    assert all(f"`{name}`" in DOCUMENTED for name in (*table, *table["options"]))
    assert (table["options"]["human_labels_way"], table["warnings"]) == ("random", [])
    assert (table["options"]["limit"], table["options"]["human_labels"]) == (60, 0.1)


def test_the_json_says_what_the_clairvoyant_would_have_paid(out: dict[str, Any]) -> None:
    bounds = out["table"]["clairvoyant"]
    assert bounds["full_vote"]["reached"] == 1.0
    assert bounds["truth"]["reached"] >= out["table"]["model_accuracy"]["small"]
    assert 1.0 <= bounds["truth"]["cost"] <= 13.0
    assert all(f"`{name}`" in DOCUMENTED for name in (*bounds, *bounds["truth"]))


def test_asking_everyone_costs_everything(out: dict[str, Any]) -> None:
    majority = out["rows"][-1]
    assert (majority["cost"], majority["cost_share"], majority["mean_subset"]) == (13.0, 1.0, 3.0)
    assert majority["calls"] == {"large": 60, "mid": 60, "small": 60}


def test_a_line_for_each_setting_and_a_sentence_on_the_target_are_printed(printed: str) -> None:
    rows, spread, sentences = printed.split("\n\n")
    policies = [line.split()[0] for line in rows.splitlines()[2:]]
    assert policies == ["camvo", "camvo", "baseline", "majority"]
    assert [line for line in spread.splitlines() if line.startswith(("baseline", "majority"))]
    assert "met their target" in sentences


def test_the_lowest_and_highest_of_the_shuffles_are_printed(printed: str, out: dict[str, Any]) -> None:
    (line,) = [line for line in printed.split("\n\n")[1].splitlines() if line.startswith("baseline")]
    accuracies = out["means"][2]["quantiles"]["accuracy"]
    assert line.split()[1:4] == [f"{100 * accuracies[position]:.1f}" for position in (0, 3, 6)]


def test_the_error_of_the_shown_score_is_printed_with_calibrate(folder: Path) -> None:
    done = called(*BASE, "--policy", "majority", "--calibrate", "--json", "calibrated.json", cwd=folder)
    content = json.loads((folder / "calibrated.json").read_text("utf-8"))
    rows, *_ = done.stdout.split("\n\n")
    assert "shown" in rows
    assert f"{content['means'][0]['means']['calibrated_ece']:.3f}" in rows
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_the_rows_are_replayed_as_they_stand_with_in_order(folder: Path) -> None:
    done = called(
        "replay", "votes.csv", "--embeddings", "e.npy", "--policy", "single:small", "--in-order", "--json",
        "order.json", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0
    content = json.loads((folder / "order.json").read_text("utf-8"))
    assert content["table"]["options"]["in_order"] is True
    assert content["rows"][0]["series"]["rounds"] == [80]
    again = called(*BASE, "--in-order", cwd=folder)
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr.startswith("camvo: --in-order: ")


def test_a_warning_is_printed_and_written(folder: Path) -> None:
    done = called(*BASE, "--policy", "camvo", "--k-min", "9", "--json", "odd.json", cwd=folder)
    (line,) = done.stderr.splitlines()
    warning = line.removeprefix("camvo: warning: ")
    assert warning.startswith("k_min = 9 is more than the 3 models")
    assert json.loads((folder / "odd.json").read_text("utf-8"))["table"]["warnings"] == [warning]


def test_an_agreement_that_is_asked_for_is_printed_and_nothing_is_cut_off(folder: Path) -> None:
    done = called(
        *BASE, "--policy", "joint", "--policy", "camvo", "--agreement", "0.99,0.98", "--json",
        "agreeing.json", cwd=folder,
    )  # fmt: skip
    content = json.loads((folder / "agreeing.json").read_text("utf-8"))
    assert [mean["agreement_asked"] for mean in content["means"]] == [0.99, 0.98, None]
    assert content["table"]["options"]["agreements"] == [0.99, 0.98]
    assert "agree ≥" in done.stdout
    assert "…" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_nothing_printed_is_cut_off_at_80_columns(printed: str) -> None:
    assert "…" not in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_the_same_again_is_the_same_but_for_the_speed(folder: Path, out: dict[str, Any]) -> None:
    called(
        *BASE, "--delta", "0.6,0.9", "--k-min", "1", "--human-labels", "0.1", "--json", "again.json",
        cwd=folder,
    )  # fmt: skip
    again = json.loads((folder / "again.json").read_text("utf-8"))
    for row in (*again["rows"], *out["rows"]):
        row["rounds_per_second"] = None
    assert again["rows"] == out["rows"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.csv"], "none.csv: cannot be read"),
        (["votes.csv", "--prices", "large=1"], "--prices: no price for the model 'mid' of votes.csv"),
        (["votes.csv", "--embeddings", "votes.csv"], "votes.csv: is not an array"),
        (["votes.csv", "--policy", "best"], "--policy best: there is no such policy"),
        (["votes.csv", "--delta", "high"], "--delta: 'high' is not a list of numbers"),
        (["votes.csv", "--lambda-l", "0"], "--lambda-l: "),
        (["votes.csv", "--json", "nowhere/out.json"], "--json nowhere/out.json: its folder is missing"),
        (["votes.csv", "--json", "."], "--json .: is a folder"),
        (["votes.csv", "--report", "votes.csv/report"], "--report votes.csv/report: "),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2_and_leaves_nothing(
    arguments: list[str], said: str, folder: Path
) -> None:
    before = sorted(folder.iterdir())
    done = called("replay", *arguments, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"camvo: {said}")
    assert sorted(folder.iterdir()) == before


def test_votes_without_texts_are_replayed_by_a_policy_that_reads_none(tmp_path: Path) -> None:
    rows = (written(tmp_path) / "votes.csv").read_text().splitlines()
    (tmp_path / "votes.csv").write_text("".join(row.partition(",")[2] + "\n" for row in rows))
    done = called("replay", "votes.csv", "--policy", "joint", "--shuffles", "1", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    done = called("replay", "votes.csv", "--policy", "joint", "--policy", "camvo", cwd=tmp_path)
    assert done.stderr == (
        "camvo: votes.csv: no column 'text' to embed"
        " (add it, give --embeddings FILE.npy, or replay --policy joint alone)\n"
    )


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_the_command(how: signal.Signals, folder: Path) -> None:
    endless = ("replay", "votes.csv", "--embeddings", "e.npy", "--shuffles", "20000", "--jobs", "2")
    command = psutil.Popen(
        [sys.executable, "-m", "backend.cli", *endless], cwd=folder, env=child(),
        start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wait_until(lambda: len(command.children(recursive=True)) == 4, "pool of two, its starter and a tracker")
    processes = command.children(recursive=True)
    command.send_signal(how)
    _, alive = psutil.wait_procs([command, *processes], timeout=60)
    assert alive == []


def test_labels_may_have_a_worth_of_their_own(folder: Path) -> None:
    done = called(
        *BASE, "--policy", "joint", "--worth", "no=60,default=15", "--json", "worth.json", cwd=folder
    )
    assert (done.returncode, done.stderr) == (0, "")
    written = json.loads((folder / "worth.json").read_text("utf-8"))
    assert written["table"]["options"]["worth"] == {"no": 60.0, "default": 15.0}


@pytest.mark.parametrize(
    ("worth", "said"),
    [
        ("nein=60", "--worth: the table has no label 'nein'"),
        ("no=much", "--worth: 'much' is not a list of numbers"),
        ("=60", "--worth: '=60' names no label"),
        ("no=0", "worth of 'no' must be positive and finite"),
    ],
)
def test_a_worth_of_a_label_that_cannot_be_is_refused(folder: Path, worth: str, said: str) -> None:
    done = called(*BASE, "--policy", "joint", "--worth", worth, cwd=folder)
    assert done.returncode != 0
    assert said in " ".join(done.stderr.split())


def test_a_policy_that_learns_from_human_labels_alone_is_refused_without_any(folder: Path) -> None:
    done = called(*BASE, "--policy", "best-single", cwd=folder)
    assert done.returncode != 0
    assert "--policy best-single: learns from human labels alone (give --human-labels 0.05" in done.stderr
