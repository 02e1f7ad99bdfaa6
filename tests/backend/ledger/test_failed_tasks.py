from __future__ import annotations

from ledger_workers import delete_task

from backend.ledger import Ledger, projects
from backend.ledger.projects import FailedTasks, _FailedTask

PROJECT = "1.1"


def test_a_failed_task_is_known_until_it_is_forgotten(ledger: Ledger) -> None:
    with ledger.write() as connection:
        tasks = [(PROJECT, 4), (PROJECT, 5), ("2.1", 4)]
        assert projects.failed_among(connection, tasks) == set()
        FailedTasks(connection, PROJECT).record(4, "no_vote", 1.0)
        assert projects.failed_among(connection, tasks) == {(PROJECT, 4)}
        FailedTasks(connection, PROJECT).forget([4])
        assert projects.failed_among(connection, tasks) == set()


def test_the_latest_reason_counts(ledger: Ledger) -> None:
    with ledger.write() as connection:
        FailedTasks(connection, PROJECT).record(4, "no_vote", 1.0)
        FailedTasks(connection, PROJECT).record(4, "budget_exhausted", 2.0)
        assert FailedTasks(connection, PROJECT).count() == {"budget_exhausted": 1}
        listed = projects.list_failures(connection, [PROJECT], 0, None, limit=9)
    assert listed == [_FailedTask(4, "budget_exhausted", 2.0)]


def test_failed_tasks_are_counted_by_reason_and_project(ledger: Ledger) -> None:
    with ledger.write() as connection:
        for task in range(5):
            FailedTasks(connection, PROJECT).record(task, "no_vote" if task else "text_empty", 1.0)
        FailedTasks(connection, "2.1").record(1, "no_vote", 1.0)
        assert list(FailedTasks(connection, PROJECT).count().items()) == [
            ("no_vote", 4),
            ("text_empty", 1),
        ]
        assert FailedTasks(connection, "3.1").count() == {}


def test_failed_tasks_are_listed_in_pages(ledger: Ledger) -> None:
    with ledger.write() as connection:
        for task in (9, 3, 7, 5):
            FailedTasks(connection, PROJECT).record(task, "no_vote", 1.0)
        FailedTasks(connection, "2.1").record(4, "no_vote", 1.0)

        def numbers(first: int, last: int | None, limit: int = 9) -> list[int]:
            return [
                task.task for task in projects.list_failures(connection, [PROJECT], first, last, limit=limit)
            ]

        assert numbers(0, None) == [3, 5, 7, 9]
        assert numbers(0, None, limit=2) == [3, 5]
        assert numbers(6, None) == [7, 9]
        assert numbers(5, 7) == [5, 7]
        assert projects.list_failures(connection, [], 0, None, limit=9) == []


def test_a_deleted_task_is_no_failed_task(ledger: Ledger) -> None:
    with ledger.write() as connection:
        FailedTasks(connection, PROJECT).record(4, "no_vote", 1.0)
        delete_task(connection, PROJECT, 4)
        assert FailedTasks(connection, PROJECT).count() == {}
