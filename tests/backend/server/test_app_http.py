"""The app's general behaviour: health, versions, errors as JSON, limits, metrics and readiness."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from label_studio_requests import Annotation, Project, annotated, predict, setup, task
from server_process import wait_until
from sqlalchemy import text
from whole_backend import Backend, votes

from backend.server import runtime

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with Backend(tmp_path_factory.mktemp("http"), votes(red="Glad", green="Glad", blue="Sad")) as backend:
        yield backend


@pytest.mark.parametrize("path", ["/", "/health"])
def test_health_says_up(backend: Backend, path: str) -> None:
    response = backend.client.get(path)
    assert (response.status_code, response.get_json()["status"]) == (200, "UP")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_versions_lists_the_model_version(backend: Backend, method: str) -> None:
    assert backend.client.open("/versions", method=method).get_json() == {"versions": ["camvo"]}


def test_the_event_loop_pauses_while_a_webhook_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked, meanwhile = threading.Event(), list[bool]()
    with Backend(tmp_path, votes(red="Glad")) as backend:

        def apply(*_: object) -> None:
            backend.runtime._thread.loop.call_soon_threadsafe(worked.set)
            meanwhile.append(worked.wait(0.2))

        monkeypatch.setattr(runtime, "_LONGEST", 60.0)
        monkeypatch.setattr(runtime, "prepare_event", lambda *_: apply)
        backend.post("/webhook", annotated(Annotation(number=1, task=1, mood="Calm")))
        assert worked.wait(30)
    assert meanwhile == [False]


def test_the_event_loop_gives_way_before_it_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gave_way = threading.Event()
    monkeypatch.setattr(runtime._UrgentRequests, "give_way", lambda _: gave_way.set())
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Sad")) as backend:
        backend.predict(task(1))
    assert gave_way.is_set()


# -- errors


@pytest.mark.parametrize("path", ["/predict", "/setup", "/webhook"])
@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b'"text"', b"null", b"\xff\xfe", b"[" * 100_000])
def test_a_body_that_is_not_a_json_object_is_refused(backend: Backend, path: str, body: bytes) -> None:
    response = backend.client.post(path, data=body, content_type="application/json")
    assert (response.status_code, response.get_json()["code"]) == (400, "body_invalid")


@pytest.mark.parametrize("path", ["/predict", "/setup", "/webhook"])
def test_a_body_over_the_limit_is_refused_with_413(tmp_path: Path, path: str) -> None:
    with Backend(
        tmp_path, votes(red="Glad", green="Glad", blue="Sad"), environment={"max_body_mb": 1}
    ) as backend:
        response = backend.post(path, predict([task(1, "x" * 1_000_001)]))
        answer = response.get_json()
        assert (response.status_code, answer["code"]) == (413, "body_too_large")
        assert "CAMVO_MAX_BODY_MB" in answer["fix"]


def test_an_unknown_url_gets_a_404_in_json(backend: Backend) -> None:
    response = backend.client.get("/nowhere")
    assert (response.status_code, response.get_json()["where"]) == (404, "/nowhere")


def test_a_wrong_method_gets_a_405_in_json(backend: Backend) -> None:
    response = backend.client.get("/predict")
    assert response.status_code == 405
    assert set(response.get_json()) == {"code", "message", "where", "fix"}


def test_an_error_has_a_message_a_place_and_a_fix_and_quotes_no_task(backend: Backend) -> None:
    secret = "the words of a patient"
    response = backend.post("/predict", {"project": 5, "tasks": [task(1, secret)], "label_config": secret})
    assert set(response.get_json()) == {"code", "message", "where", "fix"}
    assert all(response.get_json().values())
    assert "Traceback" not in response.text
    assert secret not in response.text


def test_an_unforeseen_exception_is_a_500_that_tells_nothing(tmp_path: Path) -> None:
    """A round corrupted by hand makes the read fail with an unexpected error."""
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Sad")) as backend:
        backend.predict(task(1))
        with backend.ledger.write() as connection:
            connection.execute(text("UPDATE rounds SET plan = '{\"arms\": 5}'"))
        response = backend.post("/webhook", annotated(Annotation(number=1, task=1, mood="Calm")))
        assert (response.status_code, response.get_json()["code"]) == (500, "internal")
        assert "Traceback" not in response.text


def test_an_unforeseen_exception_is_logged_without_its_message(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Sad")) as backend:
        backend.predict(task(1))
        with backend.ledger.write() as connection:
            connection.execute(text("UPDATE rounds SET plan = '\"the words of a patient\"'"))
        backend.post("/webhook", annotated(Annotation(number=1, task=1, mood="Calm")))
    said = capfd.readouterr().err
    assert '"event": "internal"' in said
    assert "the words of a patient" not in said
    assert "Traceback" not in said


# -- metrics and readiness


def test_metrics_count_rounds_models_dollars_and_requests(backend: Backend) -> None:
    backend.predict(task(next(_numbers)))
    exposition = backend.client.get("/metrics")
    assert exposition.content_type.startswith("text/plain")
    assert backend.metric("camvo_rounds_total", project=Project().key, control="mood") >= 1
    assert backend.metric("camvo_model_calls_total", model="red", outcome="answered") >= 1
    assert backend.metric("camvo_model_dollars_total", model="red") > 0
    assert backend.metric("camvo_requests_total", endpoint="/predict", status="200") >= 1


def test_metrics_hold_nothing_of_a_task(backend: Backend) -> None:
    number = 987_654_321
    backend.predict(task(number, "A confession in the garden."))
    backend.hook(annotated(Annotation(number=876_543_210, task=number, mood="Calm")))
    exposition = backend.client.get("/metrics").text
    for secret in ("confession", "987654321", "876543210", "Calm", "Glad", "the-project-token"):
        assert secret not in exposition


def test_an_invented_action_or_url_makes_no_series_of_its_own(backend: Backend) -> None:
    backend.hook({"action": "SOMETHING_INVENTED", "project": Project().payload()})
    backend.client.get("/some/invented/url")
    exposition = backend.client.get("/metrics").text
    assert "INVENTED" not in exposition
    assert "invented" not in exposition


def test_ready_says_of_each_part_whether_it_is_there(backend: Backend) -> None:
    backend.predict(task(next(_numbers)))  # loads the embedder
    response = backend.client.get("/ready")
    assert response.status_code == 200
    assert response.get_json() == {"loop": True, "ledger": True, "embedder": True, "keys": True}


def test_a_missing_key_is_named_by_ready_and_does_not_take_the_server_out_of_service(tmp_path: Path) -> None:
    entries = {"api_key_env": "CAMVO_TEST_KEY_THAT_NOBODY_SET"}
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Sad"), entries=entries) as backend:
        backend.runtime.embedder.load()
        response = backend.client.get("/ready")
        assert (response.status_code, response.get_json()["keys"]) == (200, False)


def test_ready_is_503_when_the_ledger_is_gone(tmp_path: Path) -> None:
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Sad")) as backend:
        with backend.ledger.write() as connection:
            connection.execute(text("ALTER TABLE projects RENAME TO elsewhere"))
        response = backend.client.get("/ready")
        assert (response.status_code, response.get_json()["ledger"]) == (503, False)
        backend.runtime.embedder.load()
        assert backend.client.get("/ready?part=embedder").status_code == 200  # a start goes on
        with backend.ledger.write() as connection:
            connection.execute(text("ALTER TABLE elsewhere RENAME TO projects"))


def test_ready_is_503_while_the_loop_stands_still_and_health_is_not(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    backend.runtime.embedder.load()
    monkeypatch.setattr(runtime, "_READY_PATIENCE", 0.1)
    with backend.standstill():
        response = backend.client.get("/ready")
        assert (response.status_code, response.get_json()["loop"]) == (503, False)
        assert backend.client.get("/health").status_code == 200
    wait_until(lambda: backend.client.get("/ready").status_code == 200, "turn of the loop")
    said = "".join(capfd.readouterr())
    assert "threading.py" in said[said.index("loop_stands_still") :]  # where it stands


def test_without_its_embedder_the_server_is_up_and_not_ready_and_says_why_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "no-model-in-here"
    empty.mkdir()
    with Backend(
        tmp_path, votes(red="Glad", green="Glad", blue="Sad"), embedder=str(empty), deadline=20
    ) as backend:
        assert backend.predict(task(1), task(2)) == [[], []]
        ready = backend.client.get("/ready")
        assert ready.status_code == 503
        assert {name for name, fit in ready.get_json().items() if not fit} == {"embedder"}
        start = backend.client.get("/ready?part=embedder")
        assert (start.status_code, start.get_json()) == (503, {"embedder": False})
        assert backend.client.get("/health").status_code == 200
    entries = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
    (reason,) = [entry["reason"] for entry in entries if entry["event"] == "embedder_unavailable"]
    assert reason.startswith(f"{empty}: ")


# -- the log


def test_the_log_carries_neither_texts_nor_labels_nor_secrets(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAMVO_TEST_KEY", "sk-key-of-the-diary")
    environment = {"basic_auth_user": "ada", "basic_auth_pass": "the-password", "log_level": "debug"}
    with Backend(
        tmp_path,
        votes(red="Glad", green=None, blue="a label of its own"),
        environment={**environment, "webhook_secret": "the-webhook-secret"},
        entries={"api_key_env": "CAMVO_TEST_KEY"},
    ) as backend:
        auth = {"auth": ("ada", "the-password")}
        backend.post("/setup", setup(extra_params={"instructions": "whisper"}), **auth)
        backend.post("/predict", predict([task(1, "A confession."), task(2, " "), {"id": 3}]), **auth)
        secret = {"headers": {"X-Camvo-Secret": "the-webhook-secret"}}
        backend.post("/webhook", annotated(Annotation(number=1, task=1, mood="Calm")), **secret)
        backend.post("/webhook", {"action": "ANNOTATION_CREATED"}, auth=("ada", "a-wrong-password"))
        backend.post("/predict", {"project": "x", "tasks": "A confession."}, **auth)
    captured = capfd.readouterr()
    said = captured.out + captured.err
    assert "no_prediction" in said
    for leak in (
        *("confession", "Glad", "Calm", "a label of its own", "whisper", "sk-key-of-the-diary"),
        *("the-password", "a-wrong-password", "the-webhook-secret", "the-project-token"),
        *("the-task-data-password", "the-access-token"),
    ):
        assert leak not in said


def test_a_line_of_the_log_is_one_json_object(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Backend(tmp_path, votes(red="Glad", green=None, blue="nonsense")) as backend:
        backend.predict(task(1), task(2, " "))
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) > 2
    assert all("event" in json.loads(line) for line in lines)
