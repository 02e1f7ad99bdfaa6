"""A ``camvo.yaml`` in the folder is used if none is given, and a line on standard error says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import called

from backend.commands.shared import arguments
from backend.commands.shared.arguments import environment_with


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CAMVO_CONFIG", raising=False)
    arguments._say_that_it_is_used.cache_clear()
    return tmp_path


def used(config: Path | None = None) -> Path | None:
    return environment_with(config).config


def test_a_config_that_lies_in_the_folder_is_used_and_named_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "camvo.yaml").write_text("audit: 0.1")
    assert used() == Path("camvo.yaml")
    assert capsys.readouterr().err == "camvo: camvo.yaml in this folder is used (--config names another)\n"
    assert used() == Path("camvo.yaml")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("by", ["option", "variable"])
def test_another_that_is_given_is_used_instead_and_nothing_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    (folder / "camvo.yaml").write_text("audit: 0.1")
    other = folder / "other.yaml"
    if by == "variable":
        monkeypatch.setenv("CAMVO_CONFIG", str(other))
    assert used(other if by == "option" else None) == other
    assert capsys.readouterr().err == ""


def test_nothing_is_said_if_there_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert used() is None
    assert capsys.readouterr().err == ""


def test_a_file_is_quoted_for_the_models_of_the_config_in_the_folder(folder: Path) -> None:
    model = {"name": "mine", "model": "openai/mine", "input_price": 1.0, "output_price": 2.0}
    (folder / "camvo.yaml").write_text(json.dumps({"models": [model], "policy": {"name": "majority"}}))
    (folder / "in.csv").write_text("text\nlovely\n")
    options = ["--labels", "Glad,Sad", "--text-column", "text", "--json"]
    quoted = called("quote", "in.csv", *options, cwd=folder)
    assert quoted.returncode == 0, quoted.stderr
    assert '"mine"' in quoted.stdout


def test_a_mistake_in_the_config_in_the_folder_is_named(folder: Path) -> None:
    (folder / "camvo.yaml").write_text("audits: 0.1")
    refused = called("teach", "blind.csv", cwd=folder)
    assert refused.returncode == 2
    assert "camvo.yaml: audits" in refused.stderr
