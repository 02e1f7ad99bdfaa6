"""``camvo review --disputed``: what is disputed, in which order, and what is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import called
from label_studio_api import KEY, PROJECT, LabelStudioApi
from label_studio_requests import Annotation, Project, annotated, setup, task
from sqlalchemy import update
from whole_backend import Backend, votes

from backend.label_studio.client import DISPUTED_TAB
from backend.ledger import Ledger
from backend.ledger.database import tables
from backend.ledger.learning_data import Reliabilities
from camvo.annotators import PRIOR_PERSON

PROJECT_7 = Project(number=PROJECT)

AGREED, SPLIT, ONE_AGAINST, SURE, SETTLED, BLIND, UNSURE = range(1, 8)
ANSWERS = {
    AGREED: ("Glad", "Glad"),
    SPLIT: ("Glad", "Sad"),
    ONE_AGAINST: ("Glad", "Glad", "Sad"),
    SURE: ("Sad",),
    SETTLED: ("Glad", "Sad"),
    BLIND: ("Sad",),
    UNSURE: ("Sad",),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven tasks voted Glad. The vote is certain on two, and one of these is blind."""
    folder = tmp_path_factory.mktemp("disputed")
    with Backend(folder, votes(red="Glad", green="Glad", blue="Sad")) as backend:
        backend.post("/setup", setup(PROJECT_7))
        backend.predict(*(task(number, project=PROJECT_7) for number in ANSWERS), project=PROJECT_7)
        rounds = tables.rounds
        with backend.ledger.write() as connection:
            certain = rounds.c.task.in_([SURE, BLIND])
            connection.execute(update(rounds).values(score=0.6))
            connection.execute(update(rounds).where(certain).values(score=0.97))
            connection.execute(update(rounds).where(rounds.c.task == BLIND).values(audit=True))
        for number, moods in ANSWERS.items():
            for user, mood in enumerate(moods, 1):
                said = Annotation(number=10 * number + user, task=number, mood=mood, user=user)
                backend.hook(annotated(said, PROJECT_7))
        truth = Annotation(number=99, task=SETTLED, mood="Sad", user=9, ground_truth=True)
        backend.hook(annotated(truth, PROJECT_7))
    return folder


def review(folder: Path, *arguments: str, **environment: str) -> str:
    database = f"sqlite:///{folder / 'ledger.sqlite'}"
    given = ("review", "--project", str(PROJECT), "--disputed", *arguments)
    shown: str = called(*given, cwd=folder, CAMVO_DATABASE_URL=database, COLUMNS="80", **environment).stdout
    return shown


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[int, Any]:
    return {one["task"]: one for one in json.loads(review(folder, "--json"))["disputed"]}


def test_the_label_that_is_most_probably_wrong_comes_first(found: dict[int, Any]) -> None:
    assert list(found) == [SURE, SPLIT, ONE_AGAINST]
    wrong = [one["wrong"] for one in found.values()]
    assert wrong == sorted(wrong, reverse=True)


def test_the_chance_of_an_error_is_bayes_rule(folder: Path, found: dict[int, Any]) -> None:
    """One person against a vote that is right 97% of the time, with three labels."""
    ledger = Ledger(f"sqlite:///{folder / 'ledger.sqlite'}")
    with ledger.read() as connection:  # the server may have fitted reliabilities before it stopped
        fits = Reliabilities(connection, PROJECT_7.key).latest("mood")
    ledger.close()
    right = fits[0].accuracies["1"] if fits else PRIOR_PERSON
    vote, human = 0.97 * (1.0 - right) / 2, 0.03 / 2 * right
    other = 0.03 / 2 * (1.0 - right) / 2
    assert found[SURE]["wrong"] == pytest.approx(1.0 - human / (vote + human + other))


def test_each_task_says_why(found: dict[int, Any]) -> None:
    assert found[SPLIT]["why"] == "1 says Glad, 1 says Sad"
    assert found[SURE]["why"] == "1 says Sad, the vote says Glad"


def test_a_ground_truth_settles_a_task(found: dict[int, Any]) -> None:
    assert SETTLED not in found


def test_a_certain_vote_is_not_held_against_the_label_of_a_blind_task(found: dict[int, Any]) -> None:
    assert BLIND not in found


def test_the_limit_is_kept_and_the_table_fits(folder: Path) -> None:
    shown = review(folder, "--limit", "1")
    assert "the vote says Glad" in shown
    assert "1 says Glad, 1 says Sad" not in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_the_tab_holds_the_disputed_tasks(folder: Path) -> None:
    with LabelStudioApi() as api:
        api.project["created_at"] = PROJECT_7.payload()["created_at"]
        review(folder, "--tab", LABEL_STUDIO_URL=api.url, LABEL_STUDIO_API_KEY=KEY)
        [tab] = [tab for tab in api.tabs.values() if tab["data"]["title"] == DISPUTED_TAB]
    assert [item["value"] for item in tab["data"]["filters"]["items"]] == [SURE, SPLIT, ONE_AGAINST]
