from __future__ import annotations

import dataclasses

import pytest
from sqlalchemy import Connection

from backend.ledger import Ledger, answers
from backend.ledger.answers import StoredAnswer

ANSWER = StoredAnswer("key", "small", '{"topic": "Sport"}', 120, 7, 0.000123, 0.8, project="1.1", task=4)


def store(connection: Connection, *tasks: int, project: str = "1.1", key: str = "key") -> None:
    for task in tasks:
        answers._store_each(connection, [(dataclasses.replace(ANSWER, key=key), (project, task))], 1.0)


def test_an_answer_reads_back_as_it_was_stored(ledger: Ledger) -> None:
    with ledger.write() as connection:
        store(connection, 4)
        assert answers.find_by_key(connection, ["key", "unknown"]) == {"key": ANSWER}


def test_an_answer_keeps_how_sure_its_model_was(ledger: Ledger) -> None:
    sure = dataclasses.replace(ANSWER, confidences={"topic": 0.75})
    with ledger.write() as connection:
        answers._store_each(connection, [(sure, ("1.1", 4))], 1.0)
        assert answers.find_by_key(connection, ["key"]) == {"key": sure}


def test_the_first_answer_under_a_key_stays(ledger: Ledger) -> None:
    with ledger.write() as connection:
        store(connection, 4)
        answers._store_each(connection, [(dataclasses.replace(ANSWER, content="late"), ("1.1", 4))], 2.0)
        assert answers.find_by_key(connection, ["key"]) == {"key": ANSWER}


def test_many_answers_can_be_looked_up_at_once(ledger: Ledger) -> None:
    keys = [f"key {number}" for number in range(1200)]
    with ledger.write() as connection:
        for key in keys[::100]:
            store(connection, 4, key=key)
        assert answers.find_by_key(connection, keys).keys() == {*keys[::100]}


def test_characters_that_a_database_refuses_are_replaced(ledger: Ledger) -> None:
    with ledger.write() as connection:
        answers._store_each(
            connection, [(dataclasses.replace(ANSWER, content="a\x00b\ud800c 😀"), ("1.1", 4))], 1.0
        )
        assert answers.find_by_key(connection, ["key"])["key"].content == "a\ufffdb?c 😀"


def test_forgetting_a_task_deletes_the_answers_that_only_it_uses(ledger: Ledger) -> None:
    with ledger.write() as connection:
        store(connection, 4, key="mine")
        store(connection, 4, 5, key="shared")
        store(connection, 5, key="another's")
        assert answers.forget_tasks(connection, "1.1", [4]) == 1
        assert set(answers.find_by_key(connection, ["mine", "shared", "another's"])) == {
            "shared",
            "another's",
        }


def test_an_answer_is_deleted_with_the_last_task_that_uses_it(ledger: Ledger) -> None:
    with ledger.write() as connection:
        store(connection, 4, 5)
        assert [answers.forget_tasks(connection, "1.1", [task]) for task in (4, 5)] == [0, 1]
        assert answers.find_by_key(connection, ["key"]) == {}


@pytest.mark.parametrize(("project", "task"), [("1.1", 5), ("2.1", 4)])
def test_an_answer_is_kept_for_a_linked_task(ledger: Ledger, project: str, task: int) -> None:
    with ledger.write() as connection:
        store(connection, 4)
        for _ in range(2):
            answers.link_tasks(connection, [("key", (project, task))])
        assert answers.forget_tasks(connection, "1.1", [4]) == 0
        assert answers.find_by_key(connection, ["key"])["key"].content == ANSWER.content


@pytest.mark.parametrize(
    ("project", "task", "paid"), [("1.1", 4, 0.000123), ("1.1", 5, 0.0), ("2.1", 4, 0.0)]
)
def test_an_answer_was_paid_by_the_task_that_it_was_bought_for(project: str, task: int, paid: float) -> None:
    assert ANSWER.paid_by(project, task) == paid
