from __future__ import annotations

from ledger_workers import delete_task

from backend.ledger import Ledger, answers, deletions, human_annotations, projects
from backend.ledger.answers import StoredAnswer
from backend.ledger.human_annotations import Annotation, Annotations

PROJECT = "1.1"


def test_a_deleted_task_is_reported_as_deleted(ledger: Ledger) -> None:
    with ledger.write() as connection:
        assert not projects.is_deleted(connection, PROJECT, 4)
        delete_task(connection, PROJECT, 4)
        assert projects.is_deleted(connection, PROJECT, 4)


def test_a_task_with_the_same_number_in_another_project_is_not_deleted(ledger: Ledger) -> None:
    with ledger.write() as connection:
        delete_task(connection, PROJECT, 4)
        assert not projects.is_deleted(connection, "2.1", 4)


def test_a_task_can_be_deleted_twice(ledger: Ledger) -> None:
    with ledger.write() as connection:
        delete_task(connection, PROJECT, 4)
        delete_task(connection, PROJECT, 4)


def test_deleting_a_task_deletes_its_answers_and_human_labels(ledger: Ledger) -> None:
    answer = StoredAnswer("key", "small", "Positive", 10, 2, 0.001, 0.5)
    annotation = Annotation(PROJECT, 7, 4, "2026-03-14T09:00:00Z", {"sentiment": "Positive"})
    with ledger.write() as connection:
        answers._store_each(connection, [(answer, (PROJECT, 4))], 1.0)
        human_annotations.store(connection, annotation, 1.0)
        delete_task(connection, PROJECT, 4)
        assert answers.find_by_key(connection, ["key"]) == {}
        assert Annotations(connection, PROJECT).of_task(4) == []


def test_marked_tasks_are_deleted_at_once_and_left_to_forget(ledger: Ledger) -> None:
    with ledger.write() as connection:
        assert deletions.left_to_forget(connection, 10) is None
        deletions.mark_deleted(connection, PROJECT, [], 1.0)
        deletions.mark_deleted(connection, PROJECT, range(4, 1004), 1.0)
        deletions.mark_deleted(connection, PROJECT, [4, 2000], 2.0)
        deletions.mark_deleted(connection, "2.1", [7], 1.0)
        assert projects.is_deleted(connection, PROJECT, 1003)
        assert deletions.left_to_forget(connection, 3) == (PROJECT, [4, 5, 6])
        deletions.forget_deleted(connection, PROJECT, [*range(4, 1004), 2000])
        assert deletions.left_to_forget(connection, 10) == ("2.1", [7])
        deletions.forget_deleted(connection, "2.1", [7])
        assert deletions.left_to_forget(connection, 10) is None
        assert projects.is_deleted(connection, PROJECT, 1003)


def test_an_answer_that_another_task_uses_survives_the_deletion_of_many(ledger: Ledger) -> None:
    users = {"shared": [4, 5, 6], "theirs": [4, 5], "other": [6]}
    with ledger.write() as connection:
        for key, tasks in users.items():
            answer = StoredAnswer(key, "small", "Positive", 10, 2, 0.001, 0.5)
            for task in tasks:
                answers._store_each(connection, [(answer, (PROJECT, task))], 1.0)
        answers.link_tasks(connection, [("theirs", ("2.1", 4))])
        assert answers.forget_tasks(connection, PROJECT, [4, 5]) == 0
        assert answers.find_by_key(connection, [*users]).keys() == users.keys()
        assert answers.forget_tasks(connection, PROJECT, [6, 7]) == 2
        assert answers.find_by_key(connection, [*users]).keys() == {"theirs"}
