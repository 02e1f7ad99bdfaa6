"""The methods page: what a reviewer asks, the same bytes from the same ledger, and no text of a task."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import called
from label_studio_requests import Annotation, annotated, task
from whole_backend import Backend, votes

SECRET_TEXT = "Nobody but the annotators may read this."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("methods")
    settings = {"instructions": "Glad means glad | very."}
    with Backend(folder, votes(red="Glad", green="Glad", blue="Sad"), **settings) as backend:
        backend.predict(*(task(number, f"{SECRET_TEXT} {number}") for number in range(1, 13)))
        for number in range(1, 7):
            for person in (41, 42):
                annotation = Annotation(
                    100 * person + number, number, "Sad" if number < 3 else "Glad", user=person
                )
                backend.hook(annotated(annotation))
    return folder


def methods(folder: Path, name: str) -> str:
    database = f"sqlite:///{folder / 'ledger.sqlite'}"
    called(
        *("report", "--config", "camvo.yaml", "--methods", name),
        cwd=folder,
        CAMVO_DATABASE_URL=database,
    )
    return (folder / name).read_text()


@pytest.fixture(scope="module")
def page(folder: Path) -> str:
    return methods(folder, "methods.md")


def test_the_same_ledger_gives_the_same_bytes(folder: Path, page: str) -> None:
    assert methods(folder, "again.md") == page


def test_it_names_models_versions_and_costs(page: str) -> None:
    for model in ("red", "green", "blue"):
        assert f"| {model} | openai/{model} |" in page
        assert f"| {model} | test | 12 |" in page
    assert "## Cost" in page


def test_it_holds_the_very_prompt_with_placeholders(page: str) -> None:
    assert "⟨text⟩" in page
    assert "Glad means glad | very." in page
    assert 'Question "mood"' in page


def test_it_says_how_people_validated_it(page: str) -> None:
    assert "Human labels: on 6 tasks" in page
    assert "of 6 votes were right" in page
    assert "Krippendorff's α" in page
    assert "is unchecked" in page


def test_it_holds_no_text_and_names_no_annotator(page: str) -> None:
    assert SECRET_TEXT not in page
    assert " 41" not in page


def test_a_ledger_without_a_project_has_no_methods(tmp_path: Path) -> None:
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Sad")):
        pass
    done = called(
        *("report", "--config", "camvo.yaml", "--methods", "methods.md"),
        cwd=tmp_path,
        CAMVO_DATABASE_URL=f"sqlite:///{tmp_path / 'ledger.sqlite'}",
    )
    assert (done.returncode, "the ledger has 0 projects" in done.stderr) == (2, True)
    assert not (tmp_path / "methods.md").exists()
