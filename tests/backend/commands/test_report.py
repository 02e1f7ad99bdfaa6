"""``camvo report``: the numbers of /status on the terminal, from the ledger alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import called
from label_studio_api import KEY, LabelStudioApi
from label_studio_requests import Annotation, Project, annotated, setup, task
from recount_project import Studio
from server_process import run_cli
from whole_backend import Backend, votes

TRAVEL = Project(number=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger of two projects, and what /status said of it before the server stopped."""
    folder = tmp_path_factory.mktemp("report")
    with Backend(folder, votes(red="Glad", green="Glad", blue="Sad")) as backend:
        for project in (Project(), TRAVEL):
            backend.post("/setup", setup(project))
            backend.predict(task(1), task(2), project=project)
        backend.hook(annotated(Annotation(number=1, task=1, mood="Sad")))
        (folder / "status.json").write_text(backend.client.get("/status").text)
    return folder


def report(folder: Path, *arguments: str, run: Any = called) -> Any:
    database = f"sqlite:///{folder / 'ledger.sqlite'}"
    given = ("report", "--config", "camvo.yaml", *arguments)
    return run(*given, cwd=folder, CAMVO_DATABASE_URL=database, COLUMNS="80")


def test_the_json_is_that_of_the_server_without_what_only_a_server_knows(folder: Path) -> None:
    of_server = json.loads((folder / "status.json").read_text())
    of_ledger = json.loads(report(folder, "--json", run=run_cli).stdout)
    assert of_ledger["server"] is None
    for found in (of_server, of_ledger):
        del found["server"], found["alerts"], found["generated_at"]
        for project in found["projects"]:
            del project["tasks_under_way"], project["webhook_at"], project["alerts"]
            del project["certificates"]
    assert of_ledger == of_server


def test_the_terminal_shows_every_project_and_model(folder: Path) -> None:
    shown = report(folder).stdout
    for word in ("Project 7", "Project 8", "red", "green", "blue", "mood", "0.0% of 1"):
        assert word in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_one_project_can_be_chosen_by_its_number(folder: Path) -> None:
    found = json.loads(report(folder, "--project", "8", "--json").stdout)
    assert [project["key"] for project in found["projects"]] == [TRAVEL.key]


def test_a_project_that_is_not_there_is_one_line_on_standard_error(folder: Path) -> None:
    done = report(folder, "--project", "9")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("camvo: --project: ")


def test_a_ledger_without_tables_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "none.sqlite").touch()
    done = called("report", cwd=tmp_path, CAMVO_DATABASE_URL="sqlite:///none.sqlite")
    assert done.returncode == 2
    assert "camvo serve" in done.stderr


@pytest.mark.parametrize("command", [("report",), ("review", "--project", "1")])
def test_a_folder_without_a_ledger_is_named_and_stays_empty(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = called(*command, cwd=tmp_path)
    assert done.returncode == 2
    assert "there is no ledger" in done.stderr
    assert list(tmp_path.iterdir()) == []


# -- what Label Studio shows


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, LabelStudioApi, list[int]]]:
    """A ledger, a Label Studio that shows what it holds, and the numbers of the tasks."""
    folder = tmp_path_factory.mktemp("shown")
    with LabelStudioApi() as api:
        studio = Studio(folder, api)
        with studio.backend:
            studio.predict()
            yield folder, api, studio.tasks


def compared(folder: Path, **environment: str) -> list[str]:
    database = f"sqlite:///{folder / 'ledger.sqlite'}"
    done = called(
        *("report", "--config", "camvo.yaml"),
        cwd=folder,
        CAMVO_DATABASE_URL=database,
        COLUMNS="300",
        **environment,
    )
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith("label studio")]


def test_a_report_without_access_to_label_studio_compares_nothing(shown: Any) -> None:
    assert compared(shown[0]) == []


def test_a_report_compares_what_label_studio_shows_with_the_ledger(shown: Any) -> None:
    folder, api, tasks = shown
    access = {"LABEL_STUDIO_URL": api.url, "LABEL_STUDIO_API_KEY": KEY}
    assert compared(folder, **access) == ["label studio     shows what the ledger holds, by 30 random tasks"]
    api.tasks[tasks[0]]["predictions"][0]["score"] = 0.123
    api.tasks[tasks[1]]["predictions"].clear()
    api.tasks[tasks[2]]["predictions"][0]["score"] = 0.123
    api.annotate(tasks[2], "Sad")
    [line] = compared(folder, **access)
    assert "of 29 random tasks, 1 show another score than the ledger holds and 1 no prediction" in line
    assert f"camvo predict --project {api.project['id']} corrects it" in line


def test_a_label_studio_that_cannot_be_asked_does_not_cost_the_report(shown: Any) -> None:
    access = {"LABEL_STUDIO_URL": "http://127.0.0.1:9", "LABEL_STUDIO_API_KEY": KEY}
    [line] = compared(shown[0], **access)
    assert "not compared with the ledger" in line
