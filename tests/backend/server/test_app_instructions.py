"""The project's labelling instructions, which annotators read in Label Studio, in the prompts of models."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from label_studio_api import KEY, LabelStudioApi
from label_studio_requests import SENTIMENT, Project, predict, project_updated, setup, task
from pydantic import SecretStr
from served_app import served
from whole_backend import Backend, prompt_of, votes

from backend.errors import LabelStudioError
from backend.label_studio.client import Client
from backend.ledger import projects

WRITTEN = Project(instructions="<p>Judge the <b>writer</b>, not the weather.</p>")
SCRIPT = votes(red="Glad", green="Glad", blue="Sad")


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Backend]:
    with Backend(tmp_path, SCRIPT) as backend:
        yield backend


def prompts(backend: Backend) -> set[str]:
    return {prompt_of(request.body) for request in backend.server.requests}


def kept(backend: Backend) -> str | None:
    with backend.ledger.read() as connection:
        stored = projects.get(connection, Project().key)
    return None if stored is None else stored.instructions


def test_every_prompt_holds_them_once_and_before_the_questions(backend: Backend) -> None:
    backend.hook(project_updated(WRITTEN))
    backend.predict(task(1))
    for prompt in prompts(backend):
        before, line, after = prompt.partition("> Judge the writer, not the weather.\n")
        assert line
        assert "Question" not in before
        assert "Judge the writer" not in after


def test_those_of_camvo_yaml_stand_after_them(tmp_path: Path) -> None:
    with Backend(tmp_path, SCRIPT, instructions="Irony is sad.") as backend:
        backend.hook(project_updated(WRITTEN))
        backend.predict(task(1))
        [prompt] = prompts(backend)
    assert "> Judge the writer, not the weather.\n> \n> Irony is sad.\n" in prompt


def test_the_setting_switches_them_off(tmp_path: Path) -> None:
    with Backend(tmp_path, SCRIPT, project_instructions=False) as backend:
        backend.hook(project_updated(WRITTEN))
        backend.predict(task(1))
        assert not any("Judge" in prompt for prompt in prompts(backend))


def test_a_project_can_switch_them_off_by_its_extra_params(backend: Backend) -> None:
    backend.hook(project_updated(WRITTEN))
    backend.post("/setup", setup(extra_params={"project_instructions": False}))
    backend.predict(task(1))
    assert not any("Judge" in prompt for prompt in prompts(backend))


def test_a_change_begins_a_new_epoch_and_changing_back_returns_to_the_old_one(backend: Backend) -> None:
    for project in (Project(), WRITTEN, Project()):
        backend.hook(project_updated(project))
        backend.predict(task(1))
    assert len(backend.rounds(1)) == 2
    assert len(backend.server.requests) == 2 * 3


def test_another_way_of_writing_the_same_text_changes_nothing(backend: Backend) -> None:
    for written in (WRITTEN.instructions, "<div>Judge the writer,  not\nthe weather.</div>"):
        backend.hook(project_updated(replace(WRITTEN, instructions=written)))
        backend.predict(task(1))
    assert len(backend.rounds(1)) == 1


def test_a_webhook_that_does_not_say_them_leaves_them(backend: Backend) -> None:
    backend.hook(project_updated(WRITTEN))
    body = project_updated(WRITTEN)
    del body["project"]["expert_instruction"]
    backend.hook(body)
    assert kept(backend) == "Judge the writer, not the weather."


def test_status_says_that_predictions_are_of_earlier_instructions(backend: Backend) -> None:
    backend.hook(project_updated())
    backend.predict(task(1))
    backend.hook(project_updated(WRITTEN))
    [project] = backend.client.get("/status?format=json").get_json()["projects"]
    [alert] = [alert for alert in project["alerts"] if alert["code"] == "config_changed"]
    assert "instructions" in alert["message"]


def test_camvo_predict_says_them_with_its_tasks(backend: Backend) -> None:
    body = predict([task(1)])
    body["params"] |= {"instructions": "Judge the writer."}
    assert backend.post("/predict", body).status_code == 200
    assert all("> Judge the writer." in prompt for prompt in prompts(backend))


def test_camvo_predict_does_not_undo_a_change_that_was_made_while_it_runs(backend: Backend) -> None:
    with served(backend.app) as client:
        client.instructions = "Judge the reader."
        client.predict(Project().key, SENTIMENT, [task(1)])
        assert kept(backend) == "Judge the reader."
        backend.hook(project_updated(WRITTEN))
        client.predict(Project().key, SENTIMENT, [task(2)])
    assert kept(backend) == "Judge the writer, not the weather."
    assert "> Judge the writer, not the weather." in prompt_of(backend.server.requests[-1].body)


def longer_than_any_context() -> str:
    return "word " * 130_000


def test_a_text_beyond_a_models_context_is_refused_and_the_one_before_stays(backend: Backend) -> None:
    backend.hook(project_updated(WRITTEN))
    backend.hook(project_updated(replace(WRITTEN, instructions=longer_than_any_context())))
    assert kept(backend) == "Judge the writer, not the weather."
    body = predict([task(1)])
    body["params"] |= {"instructions": longer_than_any_context()}
    refusal = backend.post("/predict", body)
    assert refusal.status_code == 400
    assert "red reads 128,000 at most" in refusal.get_json()["message"]
    assert "shorten them" in refusal.get_json()["fix"]
    assert backend.server.count() == 0


def test_a_server_with_a_key_asks_label_studio_before_the_first_prediction(tmp_path: Path) -> None:
    with LabelStudioApi() as api:
        api.project["expert_instruction"] = WRITTEN.instructions
        access = {"label_studio_url": api.url, "label_studio_api_key": SecretStr(KEY)}
        with Backend(tmp_path, SCRIPT, environment=access) as backend:
            body = predict([task(1)]) | {"project": api.project_key}
            backend.post("/predict", body)
            assert all("Judge the writer" in prompt for prompt in prompts(backend))
            asked = len(api.requests)
            backend.post("/predict", body)
            assert len(api.requests) == asked


def test_label_studio_that_does_not_answer_costs_no_prediction(tmp_path: Path) -> None:
    access = {"label_studio_url": "http://127.0.0.1:9", "label_studio_api_key": SecretStr(KEY)}
    with Backend(tmp_path, SCRIPT, environment=access) as backend:
        assert backend.predict(task(1))[0]


def test_no_log_and_no_answer_quotes_them(backend: Backend, capfd: pytest.CaptureFixture[str]) -> None:
    backend.hook(project_updated(replace(WRITTEN, instructions="Heron " + longer_than_any_context())))
    backend.hook(project_updated(WRITTEN))
    backend.predict(task(1))
    shown = json.dumps(backend.client.get("/status?format=json").get_json()) + "".join(capfd.readouterr())
    assert "Heron" not in shown
    assert "Judge the writer" not in shown


def test_a_label_studio_that_hangs_holds_up_no_other_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, hangs = threading.Semaphore(0), threading.Event()

    def ask(client: Client, key: str, **_: float) -> dict[str, str]:
        if not key.startswith("9."):
            asked.release()
            assert hangs.wait(60.0)
        raise LabelStudioError("no answer")

    monkeypatch.setattr(Client, "project_by_key", ask)
    access = {"label_studio_url": "http://127.0.0.1:9", "label_studio_api_key": SecretStr(KEY)}
    with Backend(tmp_path, SCRIPT, environment=access) as backend, ThreadPoolExecutor(3) as threads:

        def predicted(number: int) -> int:
            project = Project(number=number)
            return backend.post("/predict", predict([task(1, project=project)], project)).status_code

        held = [threads.submit(predicted, number) for number in (7, 8)]
        try:
            assert all(asked.acquire(timeout=30.0) for _ in held)
            assert threads.submit(predicted, 9).result(30.0) == 200
        finally:
            hangs.set()
        assert [each.result(30.0) for each in held] == [200, 200]
