"""``camvo predict`` against a real server whose models send garbage for a while."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from label_studio_api import PROJECT, LabelStudioApi
from label_studio_requests import SENTIMENT_AND_TOPIC
from werkzeug.serving import make_server
from whole_backend import Backend, says, votes

from backend.commands.bulk import predicting
from backend.commands.bulk.predicting import PredictionRun, Tally
from backend.commands.shared.backend_client import BackendClient
from backend.settings import Environment

GLAD = votes(red="Glad", green="Glad", blue="Glad")


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predicting, "time", SimpleNamespace(sleep=lambda seconds: None))


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Backend]:
    with Backend(tmp_path, lambda body: says(mood="Ecstatic")) as backend:
        yield backend


@pytest.fixture
def client(backend: Backend) -> Iterator[BackendClient]:
    server = make_server("127.0.0.1", 0, backend.app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    client = BackendClient(f"http://127.0.0.1:{server.server_port}", Environment())
    yield client
    client.close()
    server.shutdown()
    thread.join()
    server.server_close()


def run(api: LabelStudioApi, client: BackendClient, **options: Any) -> Tally:
    return PredictionRun(
        client=api.client(),
        predictor=client,
        project=PROJECT,
        key=api.project_key,
        label_config=api.project["label_config"],
        model_version="camvo",
        **options,
    )(lambda tasks: None)


def test_a_spell_of_garbage_costs_one_attempt_a_run_and_leaves_no_task_blank(
    backend: Backend, client: BackendClient, api: LabelStudioApi
) -> None:
    numbers = api.add_tasks(*(f"Entry {number}." for number in range(4)))
    assert run(api, client) == Tally(failed=Counter(model_bad_answer=4))
    assert backend.server.count("red") <= 4
    assert client.failed_tasks(api.project_key) == numbers
    backend.server.script = GLAD
    assert run(api, client, failed=True) == Tally(created=4)
    assert client.failed_tasks(api.project_key) == []


def test_a_missing_question_is_counted_named_and_added_to_the_prediction_later(
    backend: Backend, client: BackendClient, api: LabelStudioApi
) -> None:
    api.project["label_config"] = SENTIMENT_AND_TOPIC
    [number] = api.add_tasks("A long day.")
    backend.server.script = lambda body: says(mood="Sad", topic="Gardening")
    tally = run(api, client)
    assert tally == Tally(created=1, partly=Counter(model_bad_answer=1))
    assert tally.left == 1
    assert "1 task lacks a label for a question (model_bad_answer): " in tally.summary()
    backend.server.script = lambda body: says(topic="Food")
    assert run(api, client, failed=True) == Tally(replaced=1)
    [prediction] = api.tasks[number]["predictions"]
    assert [region["from_name"] for region in prediction["result"]] == ["mood", "topic"]


def test_three_spells_are_final(backend: Backend, client: BackendClient, api: LabelStudioApi) -> None:
    api.add_tasks("A long day.")
    runs = [run(api, client), run(api, client, failed=True), run(api, client, failed=True)]
    assert runs == [Tally(failed=Counter(model_bad_answer=1))] * 3
    asked = backend.server.count()
    backend.server.script = GLAD
    assert run(api, client, failed=True).failed == Counter(no_usable_answer=1)
    assert backend.server.count() == asked


def test_again_makes_one_more_attempt_at_final_tasks(
    backend: Backend, client: BackendClient, api: LabelStudioApi
) -> None:
    api.add_tasks("A long day.")
    again = BackendClient(client.url, Environment(), again=True)
    asked = []
    for predictor in (client, client, client, client, again, again):
        run(api, predictor)
        asked.append(backend.server.count())
    assert asked == [3, 6, 9, 9, 12, 15]
    backend.server.script = GLAD
    assert run(api, client, failed=True).failed == Counter(no_usable_answer=1)
    assert run(api, again, failed=True) == Tally(created=1)
    again.close()


def test_failed_tasks_are_fetched_page_by_page(
    backend: Backend, client: BackendClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backend.server.status.work._PAGE", 2)
    backend.predict(*({"id": number, "data": {}} for number in range(1, 6)))
    (key,) = [project["key"] for project in backend.client.get("/status?format=json").get_json()["projects"]]
    assert client.failed_tasks(key) == [1, 2, 3, 4, 5]
    assert client.failed_tasks("nobody.1") == []
