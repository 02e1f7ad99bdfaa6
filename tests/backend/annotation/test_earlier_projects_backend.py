"""Two projects of one server: the second one starts from what the first one's votes taught."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from label_studio_requests import Project, task
from server_process import wait_until
from sqlalchemy import select
from whole_backend import Backend, prompt_of, says

from backend.ledger.database import tables
from backend.testing import Reply

FIRST, SECOND = Project(number=7), Project(number=8)
MOODS = ("Glad", "Sad")


def answer(body: dict[str, Any]) -> Reply:
    """Two models that agree, and one that agrees with them by chance."""
    drawn = hashlib.sha256(f"{prompt_of(body)[-80:]}{body['model'] == 'blue'}".encode()).digest()[0]
    return says(mood=MOODS[drawn % 2])


def starting_from_others(folder: Path) -> Backend:
    return Backend(folder, answer, policy={"name": "joint"}, student=False, earlier_projects=True)


def predict_both(backend: Backend) -> None:
    """Forty tasks of the first project, and once they have taught something, one of the second."""
    backend.predict(*[task(number, f"Entry {number}.") for number in range(1, 41)], project=FIRST)
    backend.predict(task(41, "Entry 41."), project=FIRST)
    wait_until(lambda: bool(lessons(backend)), "a lesson in the ledger")
    backend.predict(task(1, "Entry 1."), project=SECOND)


def lessons(backend: Backend) -> list[dict[str, Any]]:
    with backend.ledger.read() as connection:
        return [dict(row._mapping) for row in connection.execute(select(tables.lessons))]


def test_the_second_project_starts_from_the_first(tmp_path: Path) -> None:
    with starting_from_others(tmp_path) as backend:
        predict_both(backend)
        kinds = [event.kind for event in backend.events(SECOND)]
        [round_] = backend.rounds(1, SECOND)
    assert kinds == ["earlier", "round"]
    assert round_.plan["joint"]["earlier"]["projects"] == 1


def test_a_lesson_holds_no_text_and_no_label(tmp_path: Path) -> None:
    with starting_from_others(tmp_path) as backend:
        predict_both(backend)
        [row] = lessons(backend)
    project, skills, rounds = row["lesson"]
    assert (project, {arm for arm, _ in skills}) == (FIRST.key, {"red", "green", "blue"})
    assert all(isinstance(skill, float) for _, skill in skills)
    assert rounds >= 30


def test_unless_switched_on_the_second_project_starts_from_nothing(tmp_path: Path) -> None:
    with Backend(tmp_path, answer, policy={"name": "joint"}, student=False) as backend:
        predict_both(backend)
        kinds = [event.kind for event in backend.events(SECOND)]
    assert kinds == ["round"]
