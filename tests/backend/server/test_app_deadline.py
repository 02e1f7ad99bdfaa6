"""Slow models and busy threads: decided tasks are answered, and no paid answer is lost."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from front_thread import Front
from label_studio_requests import Annotation, Project, annotated, predict, setup, task
from whole_backend import Backend, prompt_of, says

from backend.models import pool
from backend.testing import Reply

AMPLE = 10.0
SOON = 0.3  # seconds; for answers that all hang
BOTH = 1.0  # seconds; some answer at once, others hang


class Gate:
    """A script whose models wait for an event if the text says so."""

    def __init__(self) -> None:
        self.open = threading.Event()

    def __call__(self, body: dict[str, Any]) -> Reply:
        reply = says(mood="Glad")
        return reply.held_until(self.open) if "slow" in prompt_of(body) else reply


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()


@pytest.fixture
def people() -> Iterator[ThreadPoolExecutor]:
    """Threads for users who send requests at the same time."""
    with ThreadPoolExecutor(8) as users:
        yield users


def warm(backend: Backend) -> None:
    """Load the embedder and litellm, so that they take no time from a deadline."""
    backend.runtime.embedder.load()
    while not backend.predict(task(99_999, "Warm up."))[0]:
        pass


def test_tasks_decided_by_the_deadline_are_answered_and_the_rest_is_empty(tmp_path: Path, gate: Gate) -> None:
    with Backend(tmp_path, gate, deadline=AMPLE) as backend:
        warm(backend)
        quick, slow, other = backend.predict(task(1, "quick"), task(2, "slow"), task(3, "also quick"))
        gate.open.set()
    assert (bool(quick), slow, bool(other)) == (True, [], True)


def test_after_the_release_the_same_request_is_answered_without_a_new_call(
    tmp_path: Path, gate: Gate
) -> None:
    with Backend(tmp_path, gate, deadline=SOON) as backend:
        warm(backend)
        assert backend.predict(task(1, "slow")) == [[]]
        gate.open.set()
    calls = backend.server.count()
    with Backend(tmp_path, gate) as backend:  # the first backend has stored the late answers
        [prediction] = backend.predict(task(1, "slow"))
        assert prediction["result"][0]["value"] == {"choices": ["Glad"]}
        assert (calls, backend.server.count()) == (6, 0)


def test_asking_again_while_the_work_goes_on_joins_it(tmp_path: Path, gate: Gate) -> None:
    with Backend(tmp_path, gate, deadline=SOON) as backend:
        warm(backend)
        first = backend.predict(task(1, "slow"))
        second = backend.predict(task(1, "slow"))
        assert first == second == [[]]
        gate.open.set()
    assert len(backend.rounds(1)) == 1
    assert backend.server.count() == 6


def early_votes(backend: Backend, seconds: float) -> list[set[str]]:
    """Who voted in the rounds that task 1 has by then."""
    until = time.monotonic() + seconds
    while not (rounds := backend.rounds(1)) and time.monotonic() < until:
        time.sleep(0.05)
    return [{arm for arm, vote in round_.votes.items() if vote is not None} for round_ in rounds]


def test_a_task_of_a_list_that_a_person_opens_is_decided_for_that_person_and_only_once(
    tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "OVERTIME", 0.0)

    def script(body: dict[str, Any]) -> Reply:
        return gate(body) if body["model"] == "blue" else says(mood="Glad")

    with Backend(tmp_path, script, deadline=BOTH, policy={"name": "baseline"}) as backend:
        warm(backend)
        before = backend.server.count()
        backend.predict(task(1, "slow 1"), task(2, "slow 2"))
        backend.predict(task(1, "slow 1"))
        early = early_votes(backend, 30.0)
        gate.open.set()
    assert early == [{"red", "green"}]
    assert len(backend.rounds(1)) == 1
    assert backend.server.count() - before == 6


@pytest.mark.parametrize("of_job", [False, True])
def test_only_tasks_that_label_studio_asks_about_are_decided_without_late_votes(
    tmp_path: Path, gate: Gate, of_job: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "OVERTIME", 0.0)

    def script(body: dict[str, Any]) -> Reply:
        return gate(body) if body["model"] == "blue" else says(mood="Glad")

    body = predict([task(1, "slow 1")])
    if of_job:
        body["params"]["job"] = {"usd": None}  # as camvo predict says
    with Backend(tmp_path, script, deadline=BOTH, policy={"name": "baseline"}) as backend:
        warm(backend)
        assert backend.post("/predict", body).status_code == 200
        backend.predict(task(99, "quick"))
        early = early_votes(backend, 1.0 if of_job else 30.0)
        gate.open.set()
    assert early == ([] if of_job else [{"red", "green"}])
    assert backend.server.count("blue") >= 1


def test_the_deadline_is_counted(tmp_path: Path, gate: Gate) -> None:
    with Backend(tmp_path, gate, deadline=SOON) as backend:
        warm(backend)
        before = backend.metric("camvo_tasks_total", outcome="deadline")
        backend.predict(task(1, "slow"))
        assert backend.metric("camvo_tasks_total", outcome="deadline") == before + 1
        gate.open.set()


def test_identical_requests_in_flight_share_the_calls(
    tmp_path: Path, gate: Gate, people: ThreadPoolExecutor
) -> None:
    with Backend(tmp_path, gate) as backend:
        asked = [people.submit(backend.predict, task(1, "slow")) for _ in range(3)]
        assert backend.server.wait_for(3)
        gate.open.set()
        answers = [future.result() for future in asked]
        assert answers[0][0]
        assert answers[0] == answers[1] == answers[2]
        assert backend.server.count() == 3
        assert len(backend.rounds(1)) == 1


def test_a_task_that_is_asked_for_twice_at_once_is_worked_on_once(
    tmp_path: Path, gate: Gate, people: ThreadPoolExecutor
) -> None:
    with Backend(tmp_path, gate) as backend:
        asked = people.submit(backend.predict, task(1, "slow"), task(1, "slow"), task(1, "slow"))
        assert backend.server.wait_for(3)
        assert backend.metric("camvo_tasks_under_way", project=Project().key) == 1.0
        gate.open.set()
        first, second, third = asked.result()
        assert first == second == third != []


def test_two_tasks_with_the_same_text_share_the_calls_and_are_two_rounds(tmp_path: Path, gate: Gate) -> None:
    with Backend(tmp_path, gate) as backend:
        first, second = backend.predict(task(1, "the same text"), task(2, "the same text"))
        assert (bool(first), bool(second)) == (True, True)
        assert backend.server.count() == 3
        assert [len(backend.rounds(1)), len(backend.rounds(2))] == [1, 1]


def test_a_full_house_still_answers_everything_else_and_everybody_in_the_end(
    tmp_path: Path, gate: Gate
) -> None:
    """Two predictions may wait: a third is refused while both models hang, and answered after them."""
    with Backend(tmp_path, gate) as backend, Front(backend.app, threads=2) as front:
        seated = [front.post("/predict", predict([task(number, "slow")])) for number in (1, 2)]
        assert backend.server.wait_for(3)
        answer = front.post("/predict", predict([task(3, "slow too")])).answer()
        assert (answer.status, answer.code) == (503, "busy")
        assert int(answer.headers["retry-after"]) > 0
        others = [
            front.post("/setup", setup()),
            front.post("/webhook", annotated(Annotation(number=1, task=1, mood="Sad"))),
            front.send(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"),
        ]
        assert [client.answer().status for client in others] == [200, 200, 200]
        assert not gate.open.is_set()
        gate.open.set()
        assert all(client.answer().json["results"][0] for client in seated)
        answer = seated[0].post("/predict", predict([task(3, "slow too")])).answer()
        assert answer.json["results"][0]


def test_a_place_is_given_back_when_a_request_is_refused(tmp_path: Path, gate: Gate) -> None:
    with Backend(tmp_path, gate) as backend, Front(backend.app, threads=1) as front:
        broken = {**predict([task(1)]), "label_config": "<View"}
        unvotable = {**predict([task(1)]), "label_config": "<View><Text name='t' value='$t'/></View>"}
        client = front.connect()
        for body in (broken, unvotable, broken):
            assert client.post("/predict", body).answer().status == 400
        assert client.post("/predict", predict([task(1, "quick")])).answer().json["results"][0]


def test_a_task_that_fails_after_its_request_was_answered_leaves_one_line_in_the_log(
    tmp_path: Path, gate: Gate, capfd: pytest.CaptureFixture[str]
) -> None:
    def script(body: dict[str, Any]) -> Reply:
        return Reply.fails(400).held_until(gate.open)

    with Backend(tmp_path, script, deadline=SOON) as backend:
        backend.runtime.embedder.load()
        assert backend.predict(task(1)) == [[]]
        assert backend.server.wait_for(3)
        gate.open.set()
    gc.collect()  # asyncio reports a task whose exception nobody has read when the task is collected
    said = capfd.readouterr().err
    lines = [line for line in said.splitlines() if '"no_prediction"' in line]
    assert sum('"code": "model_rejected"' in line for line in lines) == 1
    assert "late_failure" not in said
    assert "Traceback" not in said


def test_closing_waits_for_jobs_under_way(tmp_path: Path, gate: Gate) -> None:
    backend = Backend(tmp_path, gate, deadline=SOON)
    with backend:
        warm(backend)
        backend.predict(task(1, "slow"))
        gate.open.set()
    assert len(backend.rounds(1)) == 1


def test_a_model_that_times_out_has_no_vote_and_the_others_decide(tmp_path: Path) -> None:
    never = threading.Event()

    def script(body: dict[str, Any]) -> Reply:
        return says(mood="Sad").held_until(never) if body["model"] == "blue" else says(mood="Glad")

    with Backend(tmp_path, script, entries={"timeout": 0.5}) as backend:
        [prediction] = backend.predict(task(1))
        assert prediction["result"][0]["value"] == {"choices": ["Glad"]}
        assert backend.rounds(1)[0].votes == {"red": "Glad", "green": "Glad", "blue": None}
