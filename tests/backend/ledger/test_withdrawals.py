from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Connection

from backend.ledger import Ledger, human_annotations
from backend.ledger.human_annotations import Annotation, Annotations, Withdrawal

NOON = 1_773_489_600.0
"""2026-03-14T12:00:00Z."""


def annotation(number: int = 1, **changes: Any) -> Annotation:
    values: dict[str, Any] = {"updated_at": "2026-03-14T12:00:00Z", "completed_by": 7} | changes
    return Annotation(project="1.1", annotation_id=number, task=4, labels={"mood": "Sad"}, **values)


def withdrawn(connection: Connection, task: int = 4) -> list[int]:
    return [a.annotation_id for a in Annotations(connection, "1.1").of_task(task) if a.withdrawn]


def test_the_commands_of_a_project_are_listed_in_their_order(ledger: Ledger) -> None:
    commands = [
        Withdrawal(annotator=7, since=1.5, until=2.5, created_at=3.0),
        Withdrawal(project="2.1", task=4),
        Withdrawal(project="1.1", withdrawn=False),
    ]
    with ledger.write() as connection:
        for command in commands:
            command.store(connection)
        assert Annotations(connection, "1.1").withdrawals() == [commands[0], commands[2]]
        assert Annotations(connection, "2.1").withdrawals() == commands[:2]


@pytest.mark.parametrize(
    ("command", "covered"),
    [
        (Withdrawal(annotator=7), True),
        (Withdrawal(annotator=8), False),
        (Withdrawal(project="1.1", task=4), True),
        (Withdrawal(project="1.1", task=5), False),
        (Withdrawal(project="2.1"), False),
        (Withdrawal(annotator=7, since=NOON, until=NOON), True),
        (Withdrawal(annotator=7, since=NOON + 1), False),
        (Withdrawal(annotator=7, until=NOON - 1), False),
    ],
)
def test_an_annotation_that_arrives_later_is_treated_like_those_that_were_there(
    ledger: Ledger, command: Withdrawal, covered: bool
) -> None:
    with ledger.write() as connection:
        human_annotations.store(connection, annotation(1), 1.0)
        command.store(connection)
        assert withdrawn(connection) == []
        human_annotations.store(connection, annotation(2), 1.0)
        assert withdrawn(connection) == [2] * covered
        assert Annotations(connection, "1.1").apply_withdrawals(4) == covered
        assert withdrawn(connection) == [1, 2] * covered
        assert Annotations(connection, "1.1").apply_withdrawals(4) == 0


def test_an_annotation_without_a_readable_time_is_the_oldest(ledger: Ledger) -> None:
    with ledger.write() as connection:
        Withdrawal(annotator=7, until=0.0).store(connection)
        human_annotations.store(connection, annotation(updated_at="yesterday"), 1.0)
        assert withdrawn(connection) == [1]


def test_the_annotations_in_a_scope_have_a_task_and_are_not_deleted(ledger: Ledger) -> None:
    with ledger.write() as connection:
        for number, user in ((1, 7), (2, 8), (3, 7)):
            human_annotations.store(connection, annotation(number, completed_by=user), 1.0)
        Annotations(connection, "1.1").delete([3], 2.0)
        for scope, expected in (
            ((None, None, 7), [1]),
            (("1.1", None, None), [1, 2]),
            (("1.1", 4, 8), [2]),
            (("1.1", 5, None), []),
            (("2.1", None, None), []),
        ):
            found = human_annotations.in_scope(connection, *scope)
            assert [each.annotation_id for each in found] == expected


def test_a_deleted_annotation_is_not_withdrawn(ledger: Ledger) -> None:
    with ledger.write() as connection:
        Withdrawal(annotator=7).store(connection)
        human_annotations.store(connection, annotation(), 1.0)
        Annotations(connection, "1.1").forget_tasks([4])
        assert Annotations(connection, "1.1").apply_withdrawals(4) == 0
        assert Annotations(connection, "1.1").of_task(4) == []


def test_withdrawn_annotations_are_no_news_that_hasten_a_recount(ledger: Ledger) -> None:
    with ledger.write() as connection:
        Withdrawal(annotator=7).store(connection)
        human_annotations.store(connection, annotation(1), 5.0)
        human_annotations.store(connection, annotation(2, completed_by=8), 5.0)
        assert Annotations(connection, "1.1").count_received(4.0) == (0, 1)
