"""Once votes were counted again, the estimate of right labels is about the latest labels and scores."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Any

from label_studio_requests import Annotation, Project, annotated, annotations_deleted, task, tasks_deleted
from recount_project import LABELLED, TASKS, Studio, truth
from sqlalchemy import func, select
from whole_backend import Backend, prompt_of, says

from backend.ledger.database import tables
from backend.ledger.reports import CheckedRow, QuestionSums
from backend.server.status.report import EstimateReport
from backend.testing import Reply


def estimate(studio: Studio) -> EstimateReport:
    body = studio.backend.client.get("/status?format=json").get_json()
    return EstimateReport(**body["projects"][0]["questions"][0]["estimate"])


def checks(studio: Studio) -> list[CheckedRow]:
    [round_] = studio.backend.rounds(studio.tasks[0], studio.project)
    with studio.backend.ledger.read() as connection:
        return QuestionSums(connection, round_.key.project, round_.key.control, round_.key.epoch).checked()


def stored(studio: Studio) -> int:
    with studio.backend.ledger.read() as connection:
        return int(connection.execute(select(func.count()).select_from(tables.recount_checks)).scalar_one())


def test_before_a_recount_it_is_about_the_first_labels_which_are_all_wrong(studio: Studio) -> None:
    found = estimate(studio)
    assert (found.basis, found.checked) == ("reviewed", LABELLED)
    assert found.share < 0.2


def test_afterwards_it_is_about_the_new_labels_which_are_all_right(studio: Studio) -> None:
    studio.recount()
    found = estimate(studio)
    assert (found.basis, found.labels, found.checked) == ("reviewed", TASKS, LABELLED)
    assert found.share > 0.8
    assert [row.confirmed for row in checks(studio)] == [1.0] * LABELLED


def test_the_scores_are_those_that_open_tasks_got_from_the_same_counting(studio: Studio) -> None:
    studio.recount()
    studio.tend()
    open_ = [score for _, score in list(studio.shown().values())[LABELLED:]]
    assert all(min(open_) - 0.1 < row.score <= max(open_) for row in checks(studio))


def test_an_answer_after_the_recount_is_compared_with_the_label_that_was_shown(studio: Studio) -> None:
    studio.recount()
    studio.label(LABELLED)
    assert len(checks(studio)) == LABELLED + 1
    assert {row.confirmed for row in checks(studio)} == {1.0}


def test_a_changed_answer_is_compared_again_and_a_deleted_one_is_gone(studio: Studio) -> None:
    studio.recount()
    other = {"Glad": "Sad", "Sad": "Glad"}[truth(0)]
    changed = Annotation(number=5000, task=studio.tasks[0], mood=other, ground_truth=True)
    studio.backend.hook(annotated(changed, studio.project))
    assert sorted(row.confirmed for row in checks(studio))[:2] == [0.0, 1.0]
    studio.backend.hook(annotations_deleted(1000, 5000, project=studio.project))
    assert len(checks(studio)) == stored(studio) == LABELLED - 1


def test_the_checks_of_a_deleted_task_go_with_it(studio: Studio) -> None:
    studio.recount()
    assert stored(studio) == LABELLED
    studio.backend.hook(tasks_deleted(studio.tasks[0], project=studio.project))
    assert stored(studio) == LABELLED - 1


# -- a simulation: projects with four models, two of which copy one another, and people who label some tasks


PROJECTS, SIZE, ANSWERED = 4, 60, 20
SKILL = {"red": 0.6, "green": 0.6, "blue": 0.9, "amber": 0.75}


def draw(*parts: object) -> float:
    """A number in [0, 1) that depends on the parts alone."""
    return zlib.crc32(" ".join(map(str, parts)).encode()) / 2**32


def mood(project: int, number: int) -> str:
    return "Glad" if draw("truth", project, number) < 0.5 else "Sad"


def drawn(body: dict[str, Any]) -> Reply:
    found = re.search(r"Note (\d+) of (\d+)", prompt_of(body))
    assert found is not None
    number, project = int(found[1]), int(found[2])
    model = body["model"]
    who = "red" if model == "green" and draw("copies", project, number) < 0.9 else model
    truth = mood(project, number)
    right = draw(who, project, number) < SKILL[model]
    return says(mood=truth if right else {"Glad": "Sad", "Sad": "Glad"}[truth])


def test_its_interval_holds_the_true_share_of_the_new_labels(tmp_path: Path) -> None:
    """It is a 95% interval, and the votes that are bought depend on how long models take: one may miss."""
    with Backend(tmp_path, drawn, tuple(SKILL), policy={"name": "joint"}) as backend:
        found = [interval_and_truth(backend, number) for number in range(1, PROJECTS + 1)]
    assert sum(low <= truth <= high for (low, high), truth in found) >= PROJECTS - 1, found


def interval_and_truth(backend: Backend, number: int) -> tuple[tuple[float, float], float]:
    """The interval of right labels after a recount, and their true share."""
    project = Project(number)
    texts = {each: f"Note {each} of {number}" for each in range(1, SIZE + 1)}
    backend.predict(*(task(each, text, project) for each, text in texts.items()), project=project)
    for each in range(1, ANSWERED + 1):
        backend.hook(annotated(Annotation(number=each, task=each, mood=mood(number, each)), project))
    assert backend.post("/recount", {"project": project.key}).get_json()["counting"] is not None
    [report] = backend.client.get(f"/status?format=json&project={number}").get_json()["projects"]
    found = EstimateReport(**report["questions"][0]["estimate"])
    assert (found.labels, found.checked) == (SIZE, ANSWERED)
    assert found.low is not None
    assert found.high is not None
    return (found.low, found.high), right_labels(backend, project) / SIZE


def right_labels(backend: Backend, project: Project) -> int:
    """How many labels are right by the latest counting, those of answered tasks as it counted them."""
    rounds, recounts, checks = tables.rounds.c, tables.recounts.c, tables.recount_checks.c
    labels: dict[int, str] = {}
    with backend.ledger.read() as connection:
        for columns in (rounds, recounts, checks):
            query = select(columns.task, columns.label).where(columns.project.endswith(project.key))
            if columns is recounts:
                query = query.order_by(recounts.number)
            labels |= {row.task: row.label for row in connection.execute(query)}
    return sum(label == mood(project.number, number) for number, label in labels.items())
