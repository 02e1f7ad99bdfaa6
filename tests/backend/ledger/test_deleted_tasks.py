from __future__ import annotations

from backend.ledger import Ledger, answers, deleted_tasks, human_annotations
from backend.ledger.answers import StoredAnswer
from backend.ledger.human_annotations import Annotation

PROJECT = "1.1"


def test_a_deleted_task_is_reported_as_deleted(ledger: Ledger) -> None:
    with ledger.write() as connection:
        assert not deleted_tasks.is_deleted(connection, PROJECT, 4)
        deleted_tasks.delete_task(connection, PROJECT, 4, now=1.0)
        assert deleted_tasks.is_deleted(connection, PROJECT, 4)


def test_a_task_with_the_same_number_in_another_project_is_not_deleted(ledger: Ledger) -> None:
    with ledger.write() as connection:
        deleted_tasks.delete_task(connection, PROJECT, 4, now=1.0)
        assert not deleted_tasks.is_deleted(connection, "2.1", 4)


def test_a_task_can_be_deleted_twice(ledger: Ledger) -> None:
    with ledger.write() as connection:
        deleted_tasks.delete_task(connection, PROJECT, 4, now=1.0)
        deleted_tasks.delete_task(connection, PROJECT, 4, now=2.0)


def test_deleting_a_task_deletes_its_answers_and_human_labels(ledger: Ledger) -> None:
    answer = StoredAnswer("key", "small", "Positive", 10, 2, 0.001, 0.5)
    annotation = Annotation(PROJECT, 7, 4, "2026-03-14T09:00:00Z", {"sentiment": "Positive"})
    with ledger.write() as connection:
        answers.store(connection, answer, PROJECT, 4, now=1.0)
        human_annotations.store(connection, annotation, 1.0)
        deleted_tasks.delete_task(connection, PROJECT, 4, now=2.0)
        assert answers.find_by_key(connection, ["key"]) == {}
        assert human_annotations.of_task(connection, PROJECT, 4) == []
