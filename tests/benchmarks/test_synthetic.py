"""The paper's sensitivity study, ``benchmarks/paper/synthetic.py``: what it prints, writes and refuses."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from command_line import called

from backend.commands.replay.runs import ReplayRow

ROOT = Path(__file__).parents[2]
DOCUMENTED = "".join((ROOT / page).read_text("utf-8") for page in ("docs/replay.md", "benchmarks/RESULTS.md"))


def _program() -> Any:
    path = ROOT / "benchmarks" / "paper" / "synthetic.py"
    spec = importlib.util.spec_from_file_location("paper_synthetic", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def run(*options: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return called(*options, cwd=cwd, main=_program().main)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("synthetic")
    done = run(
        "--gamma", "0,0.8", "--alpha", "0.1", "--delta", "0.8", "--k-min", "1", "--items", "50",
        "--shuffles", "2", "--json", "out.json", cwd=folder,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout, json.loads((folder / "out.json").read_text("utf-8"))


def test_a_row_of_the_study_is_a_row_of_a_replay_at_its_gamma_and_alpha(study: Any) -> None:
    _, out = study
    names = ["gamma", "alpha", *(field.name for field in fields(ReplayRow))]
    assert [list(row) for row in out["rows"]] == [names] * 4
    assert [(row["gamma"], row["seed"]) for row in out["rows"]] == [(0.0, 0), (0.0, 1), (0.8, 0), (0.8, 1)]
    assert {sum(row["per_label"][label]["support"] for label in ("no", "yes")) for row in out["rows"]} == {50}


def test_correlations_that_cannot_be_are_said_to_be_clamped(study: Any) -> None:
    text, out = study
    independent, clamped = out["table"]["data"]
    assert independent["clamped"] == []
    assert len(clamped["clamped"]) == 10
    assert max(pair["attained"] for pair in clamped["clamped"]) < 0.8
    assert "γ = 0.8 is impossible for 10 of 21 pairs of models" in " ".join(text.split())


def test_everything_in_the_json_of_the_study_is_documented(study: Any) -> None:
    table = study[1]["table"]
    assert all(f"`{name}`" in DOCUMENTED for name in (*table, *table["data"][0], *table["options"]))


def test_the_papers_own_matrix_has_no_gamma(tmp_path: Path) -> None:
    done = run(
        "--heterogeneous", "--alpha", "0.1", "--delta", "0.8", "--k-min", "1", "--items", "20",
        "--json", "out.json", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0
    (row,) = json.loads((tmp_path / "out.json").read_text("utf-8"))["rows"]
    assert row["gamma"] is None


def test_a_correlation_that_is_none_is_refused(tmp_path: Path) -> None:
    done = run("--gamma", "1.5", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("synthetic: gamma-1.5, --alpha 0.1: correlations must be symmetric")
