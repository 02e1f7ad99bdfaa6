"""What proves a connection, and what disproves it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from label_studio_api import PROJECT, LabelStudioApi

from backend.commands import connect
from backend.commands.connect import ProjectConnection, Wanted
from backend.commands.shared.backend_client import BackendClient
from backend.commands.shared.output import Fact
from backend.settings import Environment

URL = "http://127.0.0.1:9090"
WANTED = Wanted(PROJECT, URL, "camvo", Environment())


class Counting(BackendClient):
    """A backend that counts a webhook whenever the project is saved, unless it never arrives."""

    def __init__(self, api: LabelStudioApi, *, arrives: bool = True) -> None:
        super().__init__(URL, Environment())
        self._api, self._arrives = api, arrives

    def reachable(self) -> bool:
        return True

    def project_updates(self) -> int:
        saved = ("PATCH", f"/api/projects/{PROJECT}/")
        return self._api.writes.count(saved) if self._arrives else 0


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[LabelStudioApi]:
    """A connected project with one task."""
    monkeypatch.setattr(connect, "_PATIENCE", 0.3)
    with LabelStudioApi() as api:
        api.project["model_version"] = ""
        api.add_tasks("a")
        connect.ProjectConnection(api.client(), WANTED).connect(lambda name, text: None)
        yield api


def facts(api: LabelStudioApi, audit: float = 0.0, **changes: Any) -> dict[str, Fact]:
    client = api.client()
    connection = ProjectConnection(client, WANTED)
    proved = [*connection.prove_reachable(Counting(api, **changes)), *connection.prove_useful(audit)]
    return {fact.name: fact for fact in proved}


def test_all_holds_after_connecting(api: LabelStudioApi) -> None:
    assert {name: fact.holds for name, fact in facts(api).items()} == dict.fromkeys(
        ("health", "webhook", "version", "prediction"), True
    )


def test_proving_changes_nothing(api: LabelStudioApi) -> None:
    before = (dict(api.project), api.backends.copy(), api.webhooks.copy(), api.predictions())
    facts(api)
    assert (api.project, api.backends, api.webhooks, api.predictions()) == before


@pytest.mark.parametrize(("state", "said"), [("DI", "--backend-url"), ("ER", "k_min is too large")])
def test_a_backend_that_label_studio_cannot_use_is_said_to_be_so(
    api: LabelStudioApi, state: str, said: str
) -> None:
    [backend] = api.backends.values()
    backend |= {"state": state, "error_message": "k_min is too large"}
    health = facts(api)["health"]
    assert health.holds is False
    assert said in health.text


def test_an_older_backend_that_is_asked_in_its_place_is_named(api: LabelStudioApi) -> None:
    [backend] = api.backends.values()
    api.backends = {
        1: {**backend, "id": 1, "title": "older", "url": "http://older:1", "description": ""},
        **api.backends,
    }
    version = facts(api)["version"]
    assert version.holds is False
    assert "older at http://older:1" in version.text


@pytest.mark.parametrize("where", ["title", "backend", "project"])
def test_a_version_that_differs_anywhere_is_said_to_do_so(api: LabelStudioApi, where: str) -> None:
    [backend] = api.backends.values()
    if where == "project":
        api.project["model_version"] = "other"
    else:
        backend["title" if where == "title" else "model_version"] = "other"
    version = facts(api)["version"]
    assert version.holds is False
    assert "'other'" in version.text


def test_without_a_task_there_is_nothing_to_try(api: LabelStudioApi) -> None:
    api.tasks.clear()
    assert facts(api)["prediction"].holds is None


@pytest.mark.parametrize("response", [[], [[]], None, [{"result": [], "score": 0.0}]])
def test_an_answer_without_a_prediction_is_no_proof(api: LabelStudioApi, response: object) -> None:
    [number] = api.backends
    path = f"/api/ml/{number}/predict/test"
    api.answers["POST", path] = (200, {"task": {"id": 1}, "response": response})
    assert facts(api)["prediction"].holds is False
    assert api.writes.count(("POST", path)) == 3


def answers(api: LabelStudioApi, response: object) -> None:
    [number] = api.backends
    api.answers["POST", f"/api/ml/{number}/predict/test"] = (200, {"task": {"id": 1}, "response": response})


def test_a_label_that_is_too_doubtful_to_be_filled_in_is_a_prediction(api: LabelStudioApi) -> None:
    answers(api, [{"result": [], "score": 0.3}])
    assert facts(api)["prediction"].text == "task 1: score 0.30"


def test_without_a_prediction_the_tasks_may_be_blind(api: LabelStudioApi) -> None:
    answers(api, [[]])
    fact = facts(api, audit=0.5)["prediction"]
    assert fact.holds is None
    assert "audit: 0.5" in fact.text


def test_a_webhook_that_does_not_arrive_names_both_reasons(api: LabelStudioApi) -> None:
    webhook = facts(api, arrives=False)["webhook"]
    assert webhook.holds is False
    assert "CAMVO_WEBHOOK_SECRET" in webhook.text
    assert "SSRF_PROTECTION_ENABLED" in webhook.text
