"""A ``camvo.yaml`` in the folder is not used unasked, and a line on standard error says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend.commands.shared import arguments
from backend.commands.shared.arguments import environment_with


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CAMVO_CONFIG", raising=False)
    arguments._say_that_it_is_not_used.cache_clear()
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], config: Path | None = None) -> str:
    environment_with(config)
    return capsys.readouterr().err


def test_a_config_that_lies_in_the_folder_is_named_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "camvo.yaml").write_text("audit: 0.1")
    assert said(capsys) == (
        "camvo: found camvo.yaml, which is not used: give --config camvo.yaml, or set CAMVO_CONFIG\n"
    )
    assert said(capsys) == ""


@pytest.mark.parametrize("given", [True, False])
def test_nothing_is_said_if_it_was_given_or_is_not_there(
    folder: Path, capsys: pytest.CaptureFixture[str], given: bool
) -> None:
    if given:
        (folder / "camvo.yaml").write_text("audit: 0.1")
    assert said(capsys, folder / "camvo.yaml" if given else None) == ""
