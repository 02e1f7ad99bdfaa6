"""Tasks without a prediction: the ledger knows them, and asking again is possible three times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import SENTIMENT_AND_TOPIC, Project, predict, task, tasks_deleted
from sqlalchemy import Engine, event, text
from whole_backend import Backend, says, votes

from backend.ledger import projects
from backend.testing import Reply

GLAD = votes(red="Glad", green="Glad", blue="Glad")
KEY = Project().key


def garbage(body: dict[str, Any]) -> Reply:
    return {"red": says(mood="Ecstatic"), "green": Reply.says(""), "blue": Reply.says("Sorry.")}[
        body["model"]
    ]


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Backend]:
    with Backend(tmp_path, garbage) as backend:
        yield backend


def failed(backend: Backend) -> dict[int, str]:
    with backend.ledger.read() as connection:
        listed = projects.list_failures(connection, [KEY], 0, None, limit=99)
    return {task.task: task.code for task in listed}


def test_a_task_without_a_vote_gets_three_attempts_of_every_model_and_is_then_final(backend: Backend) -> None:
    reasons = []
    for _ in range(5):
        assert backend.predict(task(1)) == [[]]
        reasons.append(failed(backend)[1])
    assert reasons == ["model_bad_answer"] * 3 + ["no_usable_answer"] * 2
    assert {model: backend.server.count(model) for model in ("red", "green", "blue")} == {
        "red": 3,
        "green": 3,
        "blue": 3,
    }


def test_after_a_spell_of_garbage_the_next_request_gets_the_prediction(backend: Backend) -> None:
    assert backend.predict(task(1)) == [[]]
    assert failed(backend) == {1: "model_bad_answer"}
    backend.server.script = GLAD
    assert backend.predict(task(1))[0]["result"][0]["value"] == {"choices": ["Glad"]}
    assert failed(backend) == {}


def test_a_task_that_one_model_voted_on_is_never_asked_about_again(backend: Backend) -> None:
    backend.server.script = lambda body: says(mood="Glad") if body["model"] == "red" else garbage(body)
    first = backend.predict(task(1))
    asked = backend.server.count()
    assert backend.predict(task(1)) == first != [[]]
    assert (backend.server.count(), failed(backend)) == (asked, {})


def test_the_reason_is_the_code_of_the_latest_failure(backend: Backend) -> None:
    assert backend.predict({"id": 1, "data": {}}) == [[]]
    assert failed(backend) == {1: "field_missing"}
    assert backend.predict({"id": 1, "data": {"text": " "}}) == [[]]
    assert failed(backend) == {1: "text_empty"}


def test_a_prediction_found_in_the_ledger_ends_a_failure_too(backend: Backend) -> None:
    """The data of the task was broken for a while; the round is of the data before and after."""
    backend.server.script = GLAD
    first = backend.predict(task(1))
    assert backend.predict({"id": 1, "data": {}}) == [[]]
    assert failed(backend) == {1: "field_missing"}
    assert backend.predict(task(1)) == first
    assert failed(backend) == {}


def test_a_deleted_task_is_not_recorded(backend: Backend) -> None:
    backend.predict(task(1), task(2))
    backend.hook(tasks_deleted(1))
    assert failed(backend) == {2: "model_bad_answer"}
    assert backend.predict(task(1)) == [[]]
    assert failed(backend) == {2: "model_bad_answer"}


@contextmanager
def writes_to_the_list() -> Iterator[list[str]]:
    """Every statement that changes the list of failed tasks in the block."""
    written: list[str] = []

    def listen(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        if "failed_tasks" in statement and not statement.startswith("SELECT"):
            written.append(statement)

    event.listen(Engine, "before_cursor_execute", listen)
    try:
        yield written
    finally:
        event.remove(Engine, "before_cursor_execute", listen)


def refuse_changes_of_the_list(backend: Backend) -> None:
    with backend.ledger.write() as connection:
        for change in ("INSERT", "UPDATE", "DELETE"):
            connection.execute(
                text(
                    f"CREATE TRIGGER refuse_{change} BEFORE {change} ON failed_tasks"
                    " BEGIN SELECT RAISE(ABORT, 'the list is read-only'); END"
                )
            )


def test_tasks_that_get_a_prediction_at_once_change_nothing_in_the_list(backend: Backend) -> None:
    backend.server.script = GLAD
    with writes_to_the_list() as written:
        assert all(backend.predict(task(1), task(2)))
        assert written == []
        backend.server.script = garbage
        backend.predict(task(3))
    assert len(written) == 1  # so a change would have been seen above


def test_a_list_that_cannot_be_written_costs_no_prediction(backend: Backend) -> None:
    assert backend.predict(task(1)) == [[]]
    refuse_changes_of_the_list(backend)
    with writes_to_the_list() as attempted:
        assert backend.predict(task(2)) == [[]]
        backend.server.script = GLAD
        assert all(backend.predict(task(1)))
    assert [statement.split()[0] for statement in attempted] == ["INSERT", "DELETE"]
    assert failed(backend) == {1: "model_bad_answer"}


# -- one question of several

TWO = Project(label_config=SENTIMENT_AND_TOPIC)


def answer(backend: Backend, **params: Any) -> tuple[Any, Any]:
    """The result and the reason of a request for task 1 with two questions."""
    body = predict([task(1)], TWO)
    body["params"] |= params
    found = backend.post("/predict", body).get_json()
    return found["results"][0], found["reasons"][0]


def moods(result: Any) -> list[Any]:
    return [(region["from_name"], region["value"]["choices"]) for region in result["result"]]


def test_a_question_without_a_vote_leaves_the_other_its_label_however_often_it_is_asked_again(
    backend: Backend,
) -> None:
    backend.server.script = lambda body: says(mood="Sad", topic="Gardening")
    for code in ["model_bad_answer"] * 4 + [
        "no_usable_answer"
    ]:  # one prompt about both, three about the other
        result, reason = answer(backend)
        assert moods(result) == [("mood", ["Sad"])]
        assert result["score"] == pytest.approx(result["result"][0]["score"])
        assert (reason["code"], failed(backend)) == (code, {1: code})
        assert "topic" in reason["message"]


def test_the_missing_question_is_named_with_the_models_and_a_cure(backend: Backend) -> None:
    backend.server.script = lambda body: (
        Reply.fails(400) if body["model"] == "blue" else says(mood="Sad", topic="Gardening")
    )
    _, reason = answer(backend)
    assert "to topic (model_bad_answer: green, red; model_rejected: blue)" in reason["message"]
    assert "hints" in reason["fix"]


def test_a_question_that_gets_its_vote_later_joins_the_prediction(backend: Backend) -> None:
    backend.server.script = lambda body: says(mood="Sad", topic="Gardening")
    answer(backend)
    backend.server.script = lambda body: says(topic="Food")
    result, reason = answer(backend)
    assert moods(result) == [("mood", ["Sad"]), ("topic", ["Food"])]
    assert (reason, failed(backend)) == (None, {})


def test_a_prediction_of_stored_rounds_has_the_answered_question(backend: Backend) -> None:
    """As when a recount is delivered."""
    backend.server.script = lambda body: says(mood="Sad", topic="Gardening")
    answer(backend)
    result, _ = answer(backend, stored_only=True)
    assert moods(result) == [("mood", ["Sad"])]
