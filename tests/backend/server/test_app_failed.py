"""Failed tasks in GET /failed, on the page and in the JSON of GET /status, and in ``camvo report``."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from label_studio_requests import Project, task
from rich.console import Console
from whole_backend import Backend, says, votes

from backend.commands.report import print_report
from backend.settings import Environment

KEY = Project().key


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """Task 1 is final, tasks 2 and 3 lack their text, task 4 has a prediction."""
    with Backend(tmp_path_factory.mktemp("failed"), lambda body: says(mood="Ecstatic")) as backend:
        for _ in range(4):
            backend.predict(task(1))
        backend.predict({"id": 2, "data": {}}, {"id": 3, "data": {}})
        backend.server.script = votes(red="Glad", green="Glad", blue="Glad")
        assert backend.predict(task(4, "A good day."))[0]
        yield backend


def listed(backend: Backend, query: str) -> dict[str, Any]:
    body: dict[str, Any] = backend.client.get(f"/failed?{query}").get_json()
    return body


@pytest.mark.parametrize("project", [KEY, KEY.partition(".")[0]])
def test_the_failed_tasks_of_a_project_are_listed(backend: Backend, project: str) -> None:
    body = listed(backend, f"project={project}")
    assert [(row["task"], row["code"], row["final"]) for row in body["tasks"]] == [
        (1, "no_usable_answer", True),
        (2, "field_missing", False),
        (3, "field_missing", False),
    ]
    assert body["next"] is None


def test_a_range_of_numbers_limits_the_list(backend: Backend) -> None:
    assert [row["task"] for row in listed(backend, f"project={KEY}&first=2&last=2")["tasks"]] == [2]


def test_nothing_is_listed_beyond_the_last_failure(backend: Backend) -> None:
    assert listed(backend, f"project={KEY}&first=4") == {"tasks": [], "next": None}


PATHS = ["/failed", "/progress", "/missing", "/incomplete", "/recounted"]


@pytest.mark.parametrize("path", PATHS)
def test_a_query_without_a_project_is_refused_with_a_cure(backend: Backend, path: str) -> None:
    answer = backend.client.get(path)
    assert answer.status_code == 400
    assert answer.get_json() | {"message": ""} == {
        "code": "body_invalid",
        "message": "",
        "where": "project",
        "fix": "for example ?project=7",
    }


@pytest.mark.parametrize("path", [*PATHS, "/status"])
def test_a_project_that_the_ledger_does_not_know_is_refused_with_a_cure(backend: Backend, path: str) -> None:
    answer = backend.client.get(f"{path}?project=nobody")
    body = answer.get_json()
    assert (answer.status_code, body["code"], body["where"]) == (404, "project_unknown", "project")
    assert "/status" in body["fix"]


@pytest.mark.parametrize("path", PATHS)
def test_a_project_may_be_named_by_its_number(backend: Backend, path: str) -> None:
    by_number, by_key = (backend.client.get(f"{path}?project={name}") for name in ("7", KEY))
    assert (by_number.status_code, by_number.get_json()) == (200, by_key.get_json())


def test_the_status_counts_failed_tasks_by_reason_and_says_what_to_do(backend: Backend) -> None:
    (project,) = backend.client.get("/status?format=json").get_json()["projects"]
    failed = {row["code"]: (row["tasks"], row["final"]) for row in project["failed"]}
    assert failed == {"field_missing": (2, False), "no_usable_answer": (1, True)}
    assert all(row["fix"] for row in project["failed"])


def test_a_reason_has_one_cure_in_the_alarm_and_in_the_list_of_failed_tasks(backend: Backend) -> None:
    (project,) = backend.client.get("/status?format=json").get_json()["projects"]
    alarms = {alert["code"]: alert["fix"] for alert in project["alerts"]}
    fixes = {row["code"]: row["fix"] for row in project["failed"]}
    assert fixes == {code: alarms[code] for code in fixes}


def test_the_page_shows_them(backend: Backend) -> None:
    page = backend.client.get("/status?format=html").text
    assert "Tasks without a prediction" in page
    for words in ("no_usable_answer", "field_missing", "camvo predict --project 7 --failed", "final"):
        assert words in page


def test_the_report_prints_them(backend: Backend) -> None:
    console = Console(file=io.StringIO(), width=200)
    environment = Environment(
        database_url=f"sqlite:///{backend._folder / 'ledger.sqlite'}", config=backend._folder / "camvo.yaml"
    )
    print_report(console, environment, project=None, as_json=False)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "2 tasks (field_missing): " in printed
    assert "1 task (no_usable_answer, final): " in printed
