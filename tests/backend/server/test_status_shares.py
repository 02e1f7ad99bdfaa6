"""The share of each label, as ``camvo report`` estimates it from rounds and blind labels."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from blind_project import BlindProject
from stored_rounds import PROJECT

from backend.ledger import Ledger, deletions
from backend.ledger.blind_tasks import BlindQueues
from backend.server.status.report import SharesReport
from camvo.shares import LabelShare

LABELS = ["Glad", "Glad", "Glad", "Sad", "Odd"] * 40


@pytest.fixture
def project(sqlite_ledger: Ledger) -> BlindProject:
    """200 tasks, three of five "Glad"; some forty are blind."""
    project = BlindProject(sqlite_ledger)
    project.predict(LABELS)
    return project


def as_voted(project: BlindProject, *wrong: int) -> Callable[[int], str]:
    return lambda task: "Sad" if task in wrong else project.rounds[task].label


def by_label(report: SharesReport | None) -> dict[str, LabelShare]:
    assert report is not None
    return {label.label: label for label in report.labels}


def test_all_blind_labels_speak_for_all_tasks(project: BlindProject) -> None:
    project.answer(project.queue, as_voted(project))
    found = project.shares()
    assert found is not None
    assert (found.tasks, found.beyond, found.blind, found.unknown) == (200, 0, len(project.queue), 0)
    assert [label.label for label in found.labels] == ["Glad", "Sad", "Odd"]


def test_the_models_labels_and_the_peoples_make_the_estimate(project: BlindProject) -> None:
    glad = [task for task in project.queue if project.rounds[task].label == "Glad"]
    project.answer(project.queue, as_voted(project, *glad[:5]))
    found = by_label(project.shares())
    assert found["Glad"].predicted == 0.6
    assert found["Glad"].share == pytest.approx(0.6 * (1 - 5 / len(glad)))
    assert found["Glad"].low < found["Glad"].share < found["Glad"].high
    assert found["Glad"].high - found["Glad"].low < found["Glad"].alone_high - found["Glad"].alone_low


def test_the_front_of_the_queue_is_enough(project: BlindProject) -> None:
    project.answer(project.queue[:20], as_voted(project))
    found = project.shares()
    assert found is not None
    assert (found.tasks, found.blind) == (200, 20)


def test_a_label_behind_a_gap_does_not_count(project: BlindProject) -> None:
    project.answer([*project.queue[:20], *project.queue[21:]], as_voted(project))
    found = project.shares()
    assert found is not None
    assert found.blind == 20


def test_tasks_that_came_after_the_first_answer_are_not_spoken_for_before_theirs(
    project: BlindProject,
) -> None:
    project.answer(project.queue[:20], as_voted(project))
    project.predict(LABELS)
    found = project.shares()
    assert found is not None
    assert (found.tasks, found.beyond) == (200, 200)


def test_skipped_tasks_are_unknown(project: BlindProject) -> None:
    skipped = project.queue[:3]
    project.answer(project.queue, lambda task: None if task in skipped else project.rounds[task].label)
    found = project.shares()
    assert found is not None
    assert found.unknown == 3


def test_deleted_blind_tasks_are_counted(project: BlindProject) -> None:
    project.answer(project.queue, as_voted(project))
    gone = project.queue[:2]
    with project.ledger.write() as connection:
        deletions.mark_deleted(connection, PROJECT, gone, 2.0)
        deletions.forget_deleted(connection, PROJECT, gone)
    found = project.shares()
    assert found is not None
    assert (found.deleted, found.tasks, found.blind) == (2, 198, len(project.queue) - 2)


def test_blind_labels_of_an_earlier_counting_still_say_what_is_true(project: BlindProject) -> None:
    front, behind = project.queue[:20], project.queue[20:]
    project.answer(front, as_voted(project))
    with project.ledger.write() as connection:
        BlindQueues(connection, PROJECT).recounted("mood", "e1", number=1, results={})
    project.answer(behind, as_voted(project))
    found = project.shares()
    assert found is not None
    assert (found.tasks, found.blind) == (200, len(front) + len(behind))


def test_each_label_of_several_has_a_share_of_its_own(sqlite_ledger: Ledger) -> None:
    project = BlindProject(sqlite_ledger, ' choice="multiple"')
    project.predict(['["Glad","Sad"]', '["Glad"]', "[]", '["Odd"]'] * 50)
    project.answer(project.queue, as_voted(project))
    found = by_label(project.shares())
    assert {name: share.predicted for name, share in found.items()} == {"Glad": 0.5, "Sad": 0.25, "Odd": 0.25}


def test_without_a_blind_label_there_are_no_shares(project: BlindProject) -> None:
    assert project.shares() is None
