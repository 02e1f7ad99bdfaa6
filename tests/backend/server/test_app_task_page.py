"""GET /status/task: one task's prompt, answers and votes, for people with credentials."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from label_studio_api import KEY, PROJECT, LabelStudioApi
from label_studio_requests import Project, predict, task
from pydantic import SecretStr
from whole_backend import Backend, votes

from backend.label_studio.payloads import project_key
from backend.server import app

SCRIPT = votes(red="Glad", green="Sad", blue=None)
AUTH: dict[str, Any] = {"auth": ("ada", "pässword")}
TEXT = "A lovely <day>."
BROWSER = {"Accept": "text/html"}


@pytest.fixture(scope="module")
def api() -> Iterator[LabelStudioApi]:
    with LabelStudioApi() as api:
        api.add_tasks(TEXT, "not asked about")
        yield api


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory, api: LabelStudioApi) -> Iterator[Backend]:
    environment = {
        "basic_auth_user": "ada",
        "basic_auth_pass": "pässword",
        "label_studio_url": api.url,
        "label_studio_api_key": SecretStr(KEY),
    }
    with Backend(tmp_path_factory.mktemp("backend"), SCRIPT, environment=environment) as backend:
        payload = api.client().project(PROJECT)
        body = predict([task(min(api.tasks), text=TEXT)], Project()) | {
            "project": project_key(payload),
            "label_config": payload["label_config"],
        }
        assert backend.post("/predict", body, **AUTH).status_code == 200
        yield backend


def page(backend: Backend, number: int, **headers: str) -> Any:
    return backend.app.test_client().get(
        f"/status/task?project={PROJECT}&task={number}", headers=headers, **AUTH
    )


def test_it_shows_the_prompt_that_was_sent_and_each_answer(backend: Backend, api: LabelStudioApi) -> None:
    found = page(backend, min(api.tasks)).get_json()
    sent = backend.server.requests[0].body["messages"]
    assert [message["text"] for message in found["prompts"][0]["messages"]] == [
        message["content"] for message in sent
    ]
    answers = {answer["model"]: answer for answer in found["answers"]}
    assert answers["red"]["votes"] == {"mood": "Glad"}
    assert answers["green"]["votes"] == {"mood": "Sad"}
    assert (answers["blue"]["content"], answers["blue"]["code"]) == (None, "model_rejected")
    assert found["labels"][0]["votes"] == {"red": "Glad", "green": "Sad", "blue": None}


def test_the_page_shows_texts_as_texts(backend: Backend, api: LabelStudioApi) -> None:
    shown = page(backend, min(api.tasks), **BROWSER)
    assert shown.headers["Content-Type"].startswith("text/html")
    assert "A lovely &lt;day&gt;." in shown.text
    assert "<day>" not in shown.text


def test_a_project_without_a_title_is_named_by_its_number_and_not_by_its_key(
    backend: Backend, api: LabelStudioApi
) -> None:
    shown = page(backend, min(api.tasks), **BROWSER).text
    assert f"<title>Task {min(api.tasks)} · Project {PROJECT} · CaMVo</title>" in shown


def test_a_task_that_was_not_asked_about_has_a_prompt_and_prices_and_sends_nothing(
    backend: Backend, api: LabelStudioApi
) -> None:
    before = backend.server.count()
    found = page(backend, max(api.tasks)).get_json()
    assert (found["answers"], found["labels"], found["problem"]) == ([], [], None)
    assert found["prompts"][0]["models"]["red"] > 0
    assert backend.server.count() == before


def test_a_task_that_label_studio_does_not_have_says_so(backend: Backend) -> None:
    assert "Label Studio has no such task" in page(backend, 987_654).get_json()["problem"]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", "body_invalid"),
        (f"project={PROJECT}", "body_invalid"),
        (f"project={PROJECT}&task=x", "body_invalid"),
        ("project=nobody&task=1", "project_unknown"),
        ("task=-1", "body_invalid"),
    ],
)
def test_a_request_that_names_no_task_is_refused(backend: Backend, query: str, code: str) -> None:
    answer = backend.app.test_client().get(f"/status/task?{query}", **AUTH)
    assert answer.get_json()["code"] == code
    assert answer.get_json()["fix"]


def test_without_access_to_label_studio_it_says_what_to_set(tmp_path: Path) -> None:
    environment = {"basic_auth_user": "ada", "basic_auth_pass": "pässword"}
    with Backend(tmp_path, SCRIPT, environment=environment) as backend:
        backend.post("/predict", predict([task(1)], Project()), **AUTH)
        client, path = backend.app.test_client(), "/status/task?project=7&task=1"
        found = client.get(path, **AUTH).get_json()
        shown = client.get(path, headers=BROWSER, **AUTH).text
    assert shown.count("not read") == 2, "the answers of red and green"
    assert "set LABEL_STUDIO_URL and LABEL_STUDIO_API_KEY" in found["problem"]


def test_a_loop_that_stands_still_is_busy(
    backend: Backend, api: LabelStudioApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "STANDSTILL", 0.1 - backend.runtime.settings.deadline)
    with backend.standstill():
        answer = page(backend, min(api.tasks))
    assert (answer.status_code, answer.get_json()["code"]) == (503, "busy")


def test_it_needs_the_credentials(backend: Backend, api: LabelStudioApi) -> None:
    assert backend.app.test_client().get(f"/status/task?project={PROJECT}&task=1").status_code == 401


def test_a_server_without_credentials_shows_no_texts(tmp_path: Path) -> None:
    with Backend(tmp_path, SCRIPT) as backend:
        backend.predict(task(1))
        answer = backend.client.get("/status/task?project=7&task=1")
        assert (answer.status_code, answer.get_json()["code"]) == (403, "texts_not_shown")
        assert "/status/task" not in backend.client.get("/status?project=7", headers=BROWSER).text


def test_the_status_page_says_where_a_task_is_shown(backend: Backend) -> None:
    shown = backend.app.test_client().get(f"/status?project={PROJECT}", headers=BROWSER, **AUTH)
    assert f"/status/task?project={PROJECT}" in shown.text
