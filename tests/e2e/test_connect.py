"""``camvo connect``, ``disconnect`` and ``predict`` with a real Label Studio and a real server."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from subprocess import CompletedProcess
from typing import Any

import pytest
from installation import CREDENTIALS, Installation, choice, variables
from label_studio import LabelStudio
from server_process import ServerProcess, child, config_for, wait_until
from sqlalchemy import select

from backend.ledger.database import tables
from backend.testing import OpenAIServer, Reply

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

SIGNS = (
    *("label studio", "server", "server", "server", "label config", "sent", "sent", "instructions"),
    *("webhook", "backend", "health", "webhook", "settings", "tab", "version", "prediction"),
)


class Models:
    """A script of models that agree; answers about "Evening 5." are held back until ``go_on`` is set."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def __call__(self, body: dict[str, Any]) -> Reply:
        reply = Reply.says({"mood": "Glad"})
        return reply.held_until(self.go_on) if "Evening 5." in body["messages"][-1]["content"] else reply


@pytest.fixture(scope="module")
def models() -> Models:
    return Models()


@pytest.fixture(scope="module")
def installation(
    studio: LabelStudio, models: Models, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("server")
    with (
        OpenAIServer(models) as openai,
        ServerProcess(folder, config_for(openai, folder, policy=None), **variables(studio)) as server,
    ):
        server.start()
        yield Installation(studio, server)


def signs(done: CompletedProcess[str]) -> list[tuple[str, str]]:
    """The sign and the name of each line of ``camvo connect``."""
    return re.findall(r"^([✓✗–]) (\w+(?: studio| config)?) ", done.stdout, re.MULTILINE)


# -- connect and disconnect


def test_connecting_is_proved_line_by_line(installation: Installation) -> None:
    project = installation.project("A sunny day.")
    done = installation.camvo("connect", project, "--review-queue", "--extra-params", "delta=0.9")
    assert (done.returncode, signs(done)) == (0, [("✓", name) for name in SIGNS]), done.stdout
    [backend] = installation.studio.ask("GET", "/api/ml/", project=project)
    [webhook] = installation.studio.ask("GET", "/api/webhooks/", project=project)
    assert (backend["title"], backend["model_version"], backend["state"]) == ("camvo", "camvo", "CO")
    assert webhook["headers"] == {"X-Camvo-Secret": CREDENTIALS["CAMVO_WEBHOOK_SECRET"]}
    shown = installation.studio.ask("GET", f"/api/projects/{project}/")
    assert (shown["model_version"], shown["sampling"]) == ("camvo", "Uncertainty sampling")
    stored = installation.server.rows(select(tables.projects.c.key, tables.projects.c.extra_params))
    assert {"delta": 0.9} in [row.extra_params for row in stored if row.key.startswith(f"{project}.")]


def test_nothing_secret_is_printed(installation: Installation) -> None:
    done = installation.camvo("connect", installation.project("A sunny day."))
    printed = done.stdout + done.stderr
    assert all(
        installation.variables[name] not in printed for name in ("BASIC_AUTH_PASS", "CAMVO_WEBHOOK_SECRET")
    )
    assert installation.studio.token not in printed


def test_connecting_twice_changes_nothing_and_says_so(installation: Installation) -> None:
    project = installation.connected("A sunny day.")
    before = [
        installation.studio.ask("GET", path, project=project) for path in ("/api/ml/", "/api/webhooks/")
    ]
    done = installation.camvo("connect", project)
    assert done.returncode == 0
    assert "nothing had to be changed" in done.stdout
    after = [installation.studio.ask("GET", path, project=project) for path in ("/api/ml/", "/api/webhooks/")]
    assert [[item["id"] for item in items] for items in after] == [
        [item["id"] for item in items] for items in before
    ]


def test_a_project_without_tasks_is_connected_and_says_that_nothing_could_be_tried(
    installation: Installation,
) -> None:
    done = installation.camvo("connect", installation.project())
    assert (done.returncode, ("–", "prediction") in signs(done)) == (0, True), done.stdout


def test_a_personal_access_token_works_too(installation: Installation) -> None:
    token = installation.studio.ask("POST", "/api/token/")["token"]
    done = installation.camvo("connect", installation.project("A sunny day."), LABEL_STUDIO_API_KEY=token)
    assert done.returncode == 0, done.stdout


def test_a_wrong_secret_fails_the_webhook_check(installation: Installation) -> None:
    done = installation.camvo("connect", installation.project("A day."), CAMVO_WEBHOOK_SECRET="another")
    assert done.returncode == 1
    assert ("✗", "server") in signs(done)
    assert "nothing was changed in Label Studio" in done.stdout


def test_a_working_connection_outlives_a_wrong_address(installation: Installation) -> None:
    project = installation.connected("A sunny day.")
    done = installation.camvo("connect", project, "--backend-url", "http://127.0.0.1:1")
    assert done.returncode == 1
    [webhook] = installation.studio.ask("GET", "/api/webhooks/", project=project)
    assert webhook["url"] == f"{installation.server.url}/webhook"
    assert installation.camvo("connect", project).returncode == 0


def test_accepted_predictions_are_annotations_that_teach_nothing_until_they_are_taken_back(
    installation: Installation,
) -> None:
    project = installation.connected("One.", "Two.")
    installation.camvo("predict", project)
    ledger = {"CAMVO_DATABASE_URL": installation.server.database_url}
    arguments = ("--project", str(project))
    accepted = installation._run("accept", *arguments, "--above", "0.5", "--uncertified", **ledger)
    assert accepted.stdout.startswith("2 tasks accepted"), accepted.stdout + accepted.stderr
    tasks = installation.tasks(project)
    assert [task["total_annotations"] for task in tasks] == [1, 1]
    installation.train(project)
    assert {installation.learnt(task["id"])[0] for task in tasks} == {("Glad", "vote")}
    undone = installation._run("accept", *arguments, "--undo", **ledger)
    assert undone.stdout.startswith("2 annotations deleted"), undone.stdout + undone.stderr
    assert [task["total_annotations"] for task in installation.tasks(project)] == [0, 0]


def test_an_unreachable_backend_leaves_nothing_behind(installation: Installation) -> None:
    project = installation.project("A sunny day.")
    done = installation.camvo("connect", project, "--backend-url", "http://127.0.0.1:1")
    assert done.returncode == 1
    assert "health check failed" in done.stdout
    for path in ("/api/ml/", "/api/webhooks/"):
        assert installation.studio.ask("GET", path, project=project) == []


def test_disconnecting_removes_everything_that_connecting_added(installation: Installation) -> None:
    project = installation.project("A sunny day.", show_collab_predictions=False)
    restored = ("model_version", "sampling", "show_collab_predictions")
    before = installation.studio.ask("GET", f"/api/projects/{project}/")
    assert installation.camvo("connect", project, "--review-queue").returncode == 0
    installation.review(project, "--tab")
    done = installation.camvo("disconnect", project)
    assert done.returncode == 0, done.stdout
    for path in ("/api/ml/", "/api/webhooks/"):
        assert installation.studio.ask("GET", path, project=project) == []
    tabs = installation.studio.ask("GET", "/api/dm/views/", project=project)
    assert [tab["data"]["title"] for tab in tabs] == ["Default"]
    after = installation.studio.ask("GET", f"/api/projects/{project}/")
    assert {name: after[name] for name in restored} == {name: before[name] for name in restored}


# -- predict


def test_predict_stores_each_tasks_prediction_once_and_its_score_is_shown(installation: Installation) -> None:
    project = installation.connected(*(f"Day {number}." for number in range(7)))
    done = installation.camvo("predict", project, "--at-once", "3")
    assert "7 predictions stored" in done.stdout, done.stdout + done.stderr
    again = installation.camvo("predict", project)
    assert "0 predictions stored, 0 replaced, 7 tasks left" in again.stdout
    tasks = installation.tasks(project)
    assert [len(task["predictions"]) for task in tasks] == [1] * 7
    assert all(task["predictions_score"] == task["predictions"][0]["score"] for task in tasks)


def test_what_predict_stored_label_studio_does_not_ask_for_again(installation: Installation) -> None:
    project = installation.connected("A sunny day.", "A rainy day.")
    installation.camvo("predict", project)
    before = installation.predictions(project)
    installation.retrieve(project)
    assert installation.predictions(project) == before


def test_predict_continues_after_it_was_killed(installation: Installation, models: Models) -> None:
    project = installation.connected()
    installation.add(project, *({"text": f"Evening {number}."} for number in range(8)))
    command = [sys.executable, "-m", "backend.cli", "predict", "--project", str(project)]
    command += ["--at-once", "2", "--in-order"]  # one of the later texts is held back
    killed = subprocess.Popen(  # noqa: S603 - our own command line
        [*command, "--backend-url", installation.server.url],
        env=child(**installation.variables),
        start_new_session=True,
    )
    try:
        wait_until(lambda: len(installation.predictions(project)) == 4, "two stored batches")
    finally:
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait(60)
        models.go_on.set()
    done = installation.camvo("predict", project, "--at-once", "2")
    assert "4 predictions stored, 0 replaced, 4 tasks left" in done.stdout, done.stdout + done.stderr
    assert Counter(task for task, _, _ in installation.predictions(project)) == Counter(
        task["id"] for task in installation.tasks(project)
    )


def test_refresh_replaces_what_differs_and_doubles_nothing(installation: Installation) -> None:
    project = installation.connected("One.", "Two.", "Three.")
    installation.camvo("predict", project)
    installation.camvo("predict", project, "--refresh")  # counts the first rounds again, by the later ones
    right = installation.predictions(project)
    stored = installation.studio.ask("GET", "/api/predictions/", project=project)
    installation.studio.ask("PATCH", f"/api/predictions/{stored[0]['id']}/", {"score": 0.01})
    double = {key: stored[1][key] for key in ("task", "result", "score", "model_version")}
    installation.studio.ask("POST", "/api/predictions/", double)
    other = {**double, "model_version": "somebody-elses"}
    installation.studio.ask("POST", "/api/predictions/", other)
    done = installation.camvo("predict", project, "--refresh")
    assert "0 predictions stored, 2 replaced, 1 task left" in done.stdout, done.stdout
    ours = [stored for stored in installation.predictions(project) if stored[1] == "camvo"]
    assert ours == right
    assert len(installation.predictions(project)) == len(right) + 1


# -- human answers


def test_an_annotation_arrives_through_the_webhook(installation: Installation) -> None:
    project = installation.connected("A sunny day.")
    installation.camvo("predict", project)
    [task] = installation.tasks(project)
    installation.annotate(task["id"], choice("Sad"))
    wait_until(lambda: installation.learnt(task["id"]) == [("Sad", "human")], "what the human said")


def test_imported_annotations_are_learnt_at_the_next_training(installation: Installation) -> None:
    project = installation.connected()
    imported = [{"data": {"text": "Imported."}, "annotations": [{"result": [choice("Calm")]}]}]
    installation.studio.ask("POST", f"/api/projects/{project}/import", imported)
    installation.camvo("predict", project)
    [task] = installation.tasks(project)
    assert installation.learnt(task["id"]) == []
    installation.camvo("predict", project, "--annotated")
    assert installation.learnt(task["id"]) == [("Glad", "vote")]
    installation.train(project)
    wait_until(lambda: installation.learnt(task["id"]) == [("Calm", "human")], "what was imported")


def test_an_annotation_deleted_while_the_server_was_down_is_unlearnt_at_the_next_training(
    installation: Installation,
) -> None:
    project = installation.connected("A day on which the server is down.")
    installation.camvo("predict", project)
    [task] = installation.tasks(project)
    number = installation.annotate(task["id"], choice("Sad"))
    wait_until(lambda: installation.learnt(task["id"]) == [("Sad", "human")], "what the human said")
    port = installation.server.url.rpartition(":")[2]
    installation.server.kill()
    installation.studio.ask("DELETE", f"/api/annotations/{number}/")
    installation.server.start("--port", port)
    assert installation.learnt(task["id"]) == [("Sad", "human")]
    installation.train(project)
    wait_until(lambda: installation.learnt(task["id"]) == [("Glad", "vote")], "what the vote taught")


# -- an unconfigured Label Studio


def test_a_refused_private_address_is_named_and_nothing_is_left(
    installation: Installation, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with LabelStudio(tmp_path_factory.mktemp("closed"), {}) as closed:
        unconfigured = Installation(closed, installation.server)
        project = unconfigured.project("A sunny day.")
        done = unconfigured.camvo("connect", project)
        assert done.returncode == 1
        [line] = [line for line in done.stdout.splitlines() if line.startswith("✗")]
        assert "ML_BLOCK_LOCAL_IP=false and SSRF_PROTECTION_ENABLED=false" in line
        for path in ("/api/ml/", "/api/webhooks/"):
            assert closed.ask("GET", path, project=project) == []
