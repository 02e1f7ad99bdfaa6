"""A model that is down, for the server: Label Studio gets its answer at once, and camvo predict waits."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import Annotation, Project, annotated, predict, task
from whole_backend import Backend, says

from backend import upkeep
from backend.annotation.queue import JobQueue
from backend.ledger.rounds import IncompleteRounds
from backend.models import failures
from backend.testing import Reply

LACKS_RED = {"red": "model_unavailable"}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "_FIRST_PAUSE", 0.02)
    monkeypatch.setattr(failures, "LONGEST_PAUSE", 0.05)
    monkeypatch.setattr(random.SystemRandom, "uniform", lambda rng, low, high: 0.01)


@pytest.fixture
def down() -> threading.Event:
    """Set while red is down."""
    event = threading.Event()
    event.set()
    return event


@pytest.fixture
def backend(tmp_path: Path, down: threading.Event) -> Iterator[Backend]:
    def script(body: dict[str, Any]) -> Reply:
        return Reply.fails(503) if body["model"] == "red" and down.is_set() else says(mood="Glad")

    with Backend(tmp_path, script, policy={"name": "majority"}) as backend:
        backend.predict(task(99, "Warm up."))
        yield backend
        backend.runtime.stop_asking()


def of_job(backend: Backend, *tasks: object, **terms: Any) -> dict[str, Any]:
    """What camvo predict gets for tasks."""
    body = predict(tasks)
    body["params"]["job"] = {"usd": None, **terms}
    answer: dict[str, Any] = backend.post("/predict", body).get_json()
    return answer


def of_waiting_job(backend: Backend, *tasks: object) -> dict[str, Any]:
    """What camvo predict gets for tasks at a deadline by which they wait for a model."""
    answer, codes = JobQueue.answer_request, set[str]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobQueue, "answer_request", lambda queue, jobs, _: answer(queue, jobs, 0.05))
        while codes != {"outage"}:
            found = of_job(backend, *tasks)
            codes = {reason["code"] for reason in found["reasons"]}
    return found


def missing(backend: Backend, number: int) -> object:
    return backend.rounds(number)[0].missing


def test_label_studio_gets_its_answer_while_a_job_waits_for_a_model(backend: Backend) -> None:
    waiting = of_waiting_job(backend, *(task(number, f"Entry {number}.") for number in range(5)))
    assert waiting["reasons"][0]["message"].startswith("waiting for red (HTTP 503) since ")
    [prediction] = backend.predict(task(1, "Entry 1."))
    assert prediction
    assert missing(backend, 1) == LACKS_RED


def test_a_job_waits_for_a_model_and_has_its_vote(backend: Backend, down: threading.Event) -> None:
    tasks = [task(number, f"Entry {number}.") for number in range(5)]
    of_waiting_job(backend, *tasks)
    awaited = backend.client.get("/progress", query_string={"project": Project().key}).get_json()["waiting"]
    assert awaited.startswith("waiting for red (HTTP 503)")
    down.clear()
    assert all(of_job(backend, *tasks)["results"])
    assert all(backend.rounds(number)[0].votes["red"] == "Glad" for number in range(5))


def test_a_job_that_does_not_wait_leaves_tasks_incomplete_until_they_are_completed(
    backend: Backend, down: threading.Event
) -> None:
    tasks = [task(number, f"Entry {number}.") for number in range(7)]
    assert all(of_job(backend, *tasks, no_wait=True)["results"])
    of_project = {"project": Project().key}
    incomplete = backend.client.get("/incomplete", query_string=of_project).get_json()["tasks"]
    assert incomplete == [*range(7), 99]
    down.clear()
    bought = backend.server.count()
    body = of_project | {"label_config": Project().label_config, "tasks": tasks}
    answer = backend.post("/complete", body).get_json()
    assert (answer["votes"], answer["tasks"], answer["left"]) == (7, 7, 0)
    assert backend.server.count() == bought + 7
    with backend.ledger.read() as connection:
        assert IncompleteRounds(connection, Project().key).tasks() == [99]


def test_missing_votes_are_listed_over_http_by_reason_from_a_moment_on(backend: Backend) -> None:
    of_job(backend, *(task(number, f"Entry {number}.") for number in range(3)), no_wait=True)

    def listed(**newest: int) -> dict[str, Any]:
        query = {"project": Project().key, **newest}
        body: dict[str, Any] = backend.client.get("/missing", query_string=query).get_json()
        return body

    body = listed()
    assert (body["unlabelled"], body["incomplete"], body["models"]) == (0, 4, ["red"])  # with the first task
    assert [(alert["code"], alert["subject"]) for alert in body["alerts"]] == [
        ("tasks_incomplete", ""),
        ("model_unavailable", "red"),
    ]
    assert listed(round=10**6, call=10**6)["models"] == []


def test_a_missing_vote_on_a_task_that_people_have_labelled_teaches(
    tmp_path: Path, down: threading.Event
) -> None:
    def script(body: dict[str, Any]) -> Reply:
        return Reply.fails(503) if body["model"] == "red" and down.is_set() else says(mood="Glad")

    with Backend(tmp_path, script) as backend:
        backend.predict(task(1))
        backend.hook(annotated(Annotation(number=1, task=1, mood="Glad")))
        assert backend.learnt().keys() == {"green", "blue"}
        down.clear()
        body = {"project": Project().key, "label_config": Project().label_config, "tasks": [task(1)]}
        assert backend.post("/complete", body).get_json()["votes"] == 1
        assert backend.learnt()["red"] == (1, 1.0)
        with backend.ledger.read() as connection:
            assert list(upkeep.problems(connection, lambda projects: None)) == []
