"""What is said of annotators: by id, with intervals, to those who may read it, and never of a few labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import called
from label_studio_requests import Annotation, Project, annotated, task
from whole_backend import Backend, votes

PASSWORD = {"Authorization": "Basic dTpw"}
SECRETS = {"basic_auth_user": "u", "basic_auth_pass": "p", "webhook_secret": "s"}
TASKS = range(1, 31)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty tasks on which the vote is Glad: person 1 is blind, 2 takes predictions over, 3 labels five."""
    folder = tmp_path_factory.mktemp("annotators")
    with Backend(folder, votes(red="Glad", green="Glad", blue="Sad")) as backend:
        backend.predict(*(task(number) for number in TASKS))
        for number in TASKS:
            sad = number <= 10
            say(backend, 1, number, "Sad" if sad else "Glad", lead_time=6.0)
            say(backend, 2, number, "Glad", lead_time=2.0, prediction={"id": 1})
            if number <= 5:
                say(backend, 3, number, "Sad")
        say(backend, 4, 1, "Sad", ground_truth=True)
    return folder


def say(backend: Backend, user: int, number: int, mood: str, **changes: Any) -> None:
    backend.hook(
        annotated(Annotation(number=100 * user + number, task=number, mood=mood, user=user, **changes))
    )


def report(folder: Path, *arguments: str) -> str:
    database = f"sqlite:///{folder / 'ledger.sqlite'}"
    given = ("report", "--config", "camvo.yaml", "--annotators", *arguments)
    shown: str = called(*given, cwd=folder, CAMVO_DATABASE_URL=database, COLUMNS="120").stdout
    return shown


@pytest.fixture(scope="module")
def rows(folder: Path) -> dict[int | None, dict[str, Any]]:
    [project] = json.loads(report(folder, "--json"))["projects"]
    return {row["id"]: row for row in project["annotators"]}


def share(row: dict[str, Any], name: str) -> tuple[float, int]:
    return row[name]["right"], row[name]["count"]


def test_nobody_with_fewer_than_20_labels_is_named_or_judged(rows: dict[int | None, dict[str, Any]]) -> None:
    assert set(rows) == {1, 2, None}
    few = rows[None]
    assert (few["people"], few["labels"], few["agreement"], few["reliability"]) == (2, 6, None, {})


def test_tasks_and_minutes_are_counted(rows: dict[int | None, dict[str, Any]]) -> None:
    assert (rows[1]["tasks"], rows[1]["minutes"], rows[1]["seconds_per_task"]) == (30, 3.0, 6.0)


def test_agreement_is_the_share_of_the_others_on_the_same_task(
    rows: dict[int | None, dict[str, Any]],
) -> None:
    # Task 1: two of three others say Sad as well. Tasks 2 to 5: one of two. 6 to 10: none. 11 to 30: the one.
    right, count = share(rows[1], "agreement")
    assert (right, count) == (pytest.approx(2 / 3 + 4 * 0.5 + 20), 30)


def test_ground_truth_judges_the_others(rows: dict[int | None, dict[str, Any]]) -> None:
    assert share(rows[1], "truth") == (1, 1)
    assert share(rows[2], "truth") == (0, 1)


def test_a_prediction_taken_over_against_blind_colleagues_is_anchoring(
    rows: dict[int | None, dict[str, Any]],
) -> None:
    assert share(rows[2], "unchanged") == (30, 30)
    assert share(rows[2], "anchored") == (10, 30)
    assert share(rows[1], "unchanged") == share(rows[1], "anchored") == (0, 0)


def test_reliability_comes_with_its_interval(rows: dict[int | None, dict[str, Any]]) -> None:
    fit = rows[2]["reliability"]["mood"]
    assert 0.0 < fit["low"] < fit["right"] < fit["high"] < 1.0
    assert fit["labels"] == 30


def test_the_terminal_names_ids_only(folder: Path) -> None:
    shown = report(folder)
    assert "2 with fewer than 20" in shown
    assert "annotator" in shown


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    (tmp_path / "ledger.sqlite").write_bytes((folder / "ledger.sqlite").read_bytes())
    return tmp_path


@pytest.mark.parametrize(
    ("environment", "shown", "expected"),
    [({}, True, False), (SECRETS, False, False), (SECRETS, True, True)],
    ids=["without credentials", "off by default", "switched on"],
)
def test_status_shows_annotators_behind_credentials_if_asked_to(
    copy: Path, environment: dict[str, Any], shown: bool, expected: bool
) -> None:
    settings = {"show_annotators": True} if shown else {}
    url = f"sqlite:///{copy / 'ledger.sqlite'}"
    with Backend(copy, votes(), environment=environment, database_url=url, **settings) as backend:
        page = backend.client.get("/status?format=html", headers=PASSWORD).text
        found = backend.client.get("/status?format=json", headers=PASSWORD).get_json()
    assert ("<h3>Annotators</h3>" in page) == expected
    assert (found["projects"][0]["annotators"] is not None) == expected
    assert found["projects"][0]["key"] == Project().key
