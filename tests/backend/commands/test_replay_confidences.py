"""``camvo replay`` with confidences and with the student, from the CSV to the JSON."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import called
from synthetic_votes import SyntheticModel
from topic_texts import draw_topic_texts

MODELS = {"large": SyntheticModel(0.9, 10.0), "small": SyntheticModel(0.75, 1.0)}
ITEMS = 150

Replayed = tuple[dict[str, Any], str]
"""The JSON of a replay, and what it printed."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of topics whose models are sure where they are right, with prices and embeddings."""
    path = tmp_path_factory.mktemp("replay")
    table = draw_topic_texts(MODELS, items=ITEMS, topics=3, seed=0)
    right = table.votes == table.truth[:, None]
    with (path / "votes.csv").open("w", encoding="utf-8", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["text", "truth", *MODELS, *(f"conf_{model}" for model in MODELS)])
        for item, text in enumerate(table.texts or ()):
            labels = [table.labels[label] for label in (table.truth[item], *table.votes[item])]
            rows.writerow([text, *labels, *(0.9 if was else 0.4 for was in right[item])])
    (path / "votes.json").write_text(json.dumps({name: model.price for name, model in MODELS.items()}))
    np.save(path / "e.npy", table.contexts)
    return path


def run(folder: Path, *options: str) -> Replayed:
    base = ("replay", "votes.csv", "--embeddings", "e.npy", "--policy", "joint", "--human-labels", "0.2")
    done = called(*base, "--json", "out.json", *options, cwd=folder)
    assert done.returncode == 0
    return json.loads((folder / "out.json").read_text("utf-8")), done.stdout


BOTH, FEW = ("--policy", "majority"), ("--limit", "50")
"""Another policy beside ``joint``; and a limit where the replay's options matter and its numbers do not."""


@pytest.fixture(scope="module")
def by_default(folder: Path) -> Replayed:
    return run(folder, *BOTH)


@pytest.fixture(scope="module")
def with_student(folder: Path) -> dict[str, Any]:
    return run(folder, *BOTH, *FEW, "--student")[0]


@pytest.fixture(scope="module")
def without_student(folder: Path) -> Replayed:
    return run(folder, *BOTH, *FEW, "--no-student")


def test_confidences_are_no_models_and_lift_a_policy_that_uses_them(
    folder: Path, by_default: Replayed
) -> None:
    used, unused = by_default[0], run(folder, "--no-confidences")[0]
    assert list(used["table"]["prices"]) == ["large", "small"]
    assert used["rows"][0]["accuracy"] > unused["rows"][0]["accuracy"] + 0.03
    assert [out["table"]["options"]["confidences"] for out in (used, unused)] == [True, False]


def students(out: dict[str, Any]) -> list[tuple[str, bool]]:
    return [(row["policy"], row["student"]) for row in out["rows"]]


def test_the_student_votes_with_joint_alone_unless_it_is_turned_off(
    by_default: Replayed, with_student: dict[str, Any], without_student: Replayed
) -> None:
    out, _ = by_default
    assert students(out) == students(with_student) == [("joint", True), ("majority", False)]
    assert [mean["student"] for mean in out["means"]] == [True, False]
    assert out["table"]["options"]["student"] is None
    assert students(without_student[0]) == [("joint", False), ("majority", False)]


def test_an_agreement_with_all_models_has_no_student(folder: Path) -> None:
    assert students(run(folder, *FEW, "--agreement", "0.9")[0]) == [("joint", False)]


def test_the_last_line_says_with_which_policies_the_student_voted(
    by_default: Replayed, without_student: Replayed
) -> None:
    assert by_default[1].splitlines()[-1] == "The student voted too, free of charge, with joint."
    assert "student" not in without_student[1]


def test_the_student_is_no_model_of_the_table_and_costs_nothing(with_student: dict[str, Any]) -> None:
    majority = with_student["rows"][1]
    assert (with_student["table"]["options"]["student"], list(majority["calls"])) == (
        True,
        ["large", "small"],
    )
    assert majority["cost"] == 11.0


def test_a_table_without_texts_goes_without_the_student_by_default(tmp_path: Path) -> None:
    (tmp_path / "votes.csv").write_text("truth,m\nyes,yes\nno,yes\n")
    np.save(tmp_path / "e.npy", np.eye(2))
    assert students(run(tmp_path, "--prices", "m=1")[0]) == [("joint", False)]


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("title,truth,m", "no column 'text' for the student"),
        ("text,truth,student", "is the name of the student"),
    ],
)
def test_a_table_that_is_not_for_the_student_is_refused(header: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "votes.csv").write_text(f"{header}\nA text.,yes,yes\nA book.,no,yes\n")
    np.save(tmp_path / "e.npy", np.eye(2))
    models = [name for name in header.split(",") if name not in {"text", "truth"}]
    prices = ",".join(f"{name}=1" for name in models)
    done = called(
        "replay", "votes.csv", "--embeddings", "e.npy", "--prices", prices, "--student", cwd=tmp_path
    )
    assert done.returncode == 2
    assert said in done.stderr
