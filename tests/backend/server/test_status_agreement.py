"""Agreement of people, models and the vote, and whether people lean on what they see: on every surface."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from command_line import called
from label_studio_requests import Annotation, annotated, task
from whole_backend import Backend, votes

from camvo.annotators import alt_test, cohen_kappa, krippendorff_alpha

TASKS = range(1, 81)
BLIND = 40
"""Tasks that all three people labelled without a prediction."""

VOTE = "Glad"


def says(person: int, number: int) -> str:
    """What a person thinks of a task: Sad in a quarter of the tasks, and a slip in every tenth."""
    sad = zlib.crc32(f"mood {number}".encode()) % 4 == 0
    slip = zlib.crc32(f"{person} slips at {number}".encode()) % 10 == 0
    return "Sad" if sad != slip else "Glad"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The vote is always Glad. Three people label 40 tasks blind; the first takes 40 shown votes over."""
    folder = tmp_path_factory.mktemp("agreement")
    with Backend(folder, votes(red=VOTE, green=VOTE, blue="Sad")) as backend:
        backend.predict(*(task(number) for number in TASKS))
        for number in TASKS:
            if number <= BLIND:
                for person in (1, 2, 3):
                    say(backend, person, number, says(person, number))
            else:
                say(backend, 1, number, VOTE, prediction={"id": number})
    return folder


def say(backend: Backend, person: int, number: int, mood: str, **changes: Any) -> None:
    annotation = Annotation(number=1000 * person + number, task=number, mood=mood, user=person, **changes)
    backend.hook(annotated(annotation))


def report(folder: Path, *arguments: str) -> str:
    database = f"sqlite:///{folder / 'ledger.sqlite'}"
    given = ("report", "--config", "camvo.yaml", *arguments)
    shown: str = called(*given, cwd=folder, CAMVO_DATABASE_URL=database, COLUMNS="120").stdout
    return shown


@pytest.fixture(scope="module")
def project(folder: Path) -> dict[str, Any]:
    [project] = json.loads(report(folder, "--annotators", "--json"))["projects"]
    return dict(project)


BLIND_LABELS = {str(person): {n: says(person, n) for n in range(1, BLIND + 1)} for person in (1, 2, 3)}


def test_people_are_compared_by_their_blind_labels(project: dict[str, Any]) -> None:
    [found] = project["agreement"]
    expected = krippendorff_alpha([[said[n] for said in BLIND_LABELS.values()] for n in range(1, BLIND + 1)])
    assert expected is not None
    assert (found["control"], found["people"]["value"]) == ("mood", pytest.approx(expected.value))
    assert found["people"]["tasks"] == BLIND


def test_the_vote_and_each_model_are_compared_with_people(project: dict[str, Any]) -> None:
    [found] = project["agreement"]
    vote, *models = found["voters"]
    assert (vote["voter"], [model["voter"] for model in models]) == ("the vote", ["blue", "green", "red"])
    people = [[said[n] for said in BLIND_LABELS.values()] for n in range(1, BLIND + 1)]
    kappa = cohen_kappa([(VOTE, said) for said in people])
    test = alt_test(BLIND_LABELS, dict.fromkeys(range(1, BLIND + 1), VOTE), 0.2)
    assert kappa is not None
    assert test is not None
    assert vote["kappa"]["value"] == pytest.approx(kappa.value)
    assert vote["alt_test"]["expert"]["winning_rate"] == pytest.approx(test.winning_rate, abs=1e-9)
    assert vote["alt_test"]["expert"]["advantage"] == pytest.approx(test.advantage, abs=1e-9)


def test_a_person_who_takes_what_is_shown_is_named_and_the_project_alarmed(project: dict[str, Any]) -> None:
    [lean] = [row["anchoring"] for row in project["annotators"] if row["id"] == 1]
    assert (lean["shown"], lean["blind"]) == (40, 40)
    assert lean["more"] > lean["low"] > 0.0
    assert [row["anchoring"] for row in project["annotators"] if row["id"] != 1] == [None, None]
    assert "suggestions_followed" in [alert["code"] for alert in project["alerts"]]


def test_the_terminal_says_it(folder: Path) -> None:
    shown = report(folder, "--annotators")
    assert "people, α" in shown
    assert "the vote, κ" in shown
    assert "suggestions_followed" in shown or "more often when they see it" in shown


def test_the_certificate_says_it_and_names_nobody(folder: Path) -> None:
    report(folder, "--certificate", "certificate.html")
    page = (folder / "certificate.html").read_text()
    assert "Agreement with people" in page
    assert "people, α" in page
    assert "annotator 1" not in page
