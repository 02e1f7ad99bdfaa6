"""START_TRAINING: annotations without a webhook are fetched from Label Studio and learnt once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from label_studio_api import KEY, LabelStudioApi
from label_studio_requests import Annotation, Project, annotated, start_training
from pydantic import SecretStr
from server_process import wait_until
from whole_backend import Backend, votes

from backend.label_studio.payloads import parse_webhook, project_key
from backend.ledger.human_annotations import Annotations

SPLIT = votes(red="Glad", green="Glad", blue="Sad")
VOTE = {"red": (1, 1.0), "green": (1, 1.0), "blue": (1, 0.0)}
SAD = {"red": (1, 0.0), "green": (1, 0.0), "blue": (1, 1.0)}


class Studio:
    """A Label Studio, a backend with its key, and a project with one task that was voted "Glad"."""

    def __init__(self, folder: Path, api: LabelStudioApi, **environment: Any) -> None:
        self.api = api
        [self.task] = api.add_tasks("A note.")
        self.backend = Backend(folder, SPLIT, environment=environment)

    @property
    def project(self) -> Project:
        """The stand-in's project, as webhooks name it."""
        created = Project().created
        return Project(
            number=self.api.project["id"], label_config=self.api.project["label_config"], created=created
        )

    def vote(self) -> None:
        self.api.project["created_at"] = self.project.payload()["created_at"]
        assert project_key(self.api.project) == self.project.key
        raw = {"id": self.task, "data": {"text": "A note."}}
        assert self.backend.predict(raw, project=self.project)[0]

    def train(self, then: Callable[[], object]) -> None:
        self.backend.hook(start_training(self.project))
        wait_until(then, "end of the training")

    def finish(self) -> None:
        """Wait until no training is under way."""
        wait_until(lambda: not self.backend.runtime._trainings, "end of the training")

    def learnt(self) -> dict[str, tuple[int, float]]:
        return self.backend.learnt(project=self.project)

    def known(self) -> frozenset[int]:
        with self.backend.ledger.read() as connection:
            return Annotations(connection, self.project.key).ids()


@pytest.fixture
def studio(tmp_path: Path, api: LabelStudioApi) -> Iterator[Studio]:
    key = SecretStr(KEY)
    studio = Studio(tmp_path, api, label_studio_url=api.url, label_studio_api_key=key)
    with studio.backend:
        studio.vote()
        yield studio


def test_an_imported_annotation_is_learnt(studio: Studio) -> None:
    assert studio.learnt() == VOTE
    number = studio.api.annotate(studio.task, "Sad")
    studio.train(lambda: studio.learnt() == SAD)
    assert studio.known() == {number}


def test_training_twice_teaches_once(studio: Studio) -> None:
    studio.api.annotate(studio.task, "Sad")
    voted = len(studio.api.requests)
    studio.train(lambda: studio.learnt() == SAD)
    studio.finish()
    before = len(studio.backend.events(studio.project))
    trained = len(studio.api.requests)
    studio.train(lambda: len(studio.api.requests) - trained >= trained - voted)
    studio.finish()
    assert len(studio.backend.events(studio.project)) == before


def test_an_annotation_that_changed_without_an_event_is_learnt_anew(studio: Studio) -> None:
    studio.api.annotate(studio.task, "Sad")
    studio.train(lambda: studio.learnt() == SAD)
    [annotation] = studio.api.tasks[studio.task]["annotations"]
    annotation["updated_at"] = "2099-01-01T00:00:00.000000Z"
    annotation["result"][0]["value"]["choices"] = ["Glad"]
    studio.train(lambda: studio.learnt() == VOTE)
    assert studio.backend.rounds(studio.task, studio.project)[0].taught_by == "human"


def test_an_annotation_that_was_deleted_without_an_event_is_unlearnt(studio: Studio) -> None:
    studio.api.annotate(studio.task, "Sad")
    studio.train(lambda: studio.learnt() == SAD)
    studio.api.tasks[studio.task]["annotations"].clear()
    studio.train(lambda: studio.known() == frozenset())
    assert studio.learnt() == VOTE


def test_an_annotation_that_no_page_shows_but_that_is_there_is_kept(studio: Studio) -> None:
    number = studio.api.annotate(studio.task, "Sad")
    studio.train(lambda: studio.learnt() == SAD)
    studio.api.answers["GET", "/api/tasks/"] = (200, {"total": 0, "tasks": []})
    path = f"/api/annotations/{number}/"
    studio.train(lambda: ("GET", path, None) in studio.api.requests)
    studio.finish()
    assert studio.known() == {number}


def test_another_label_studios_project_of_that_number_is_not_learnt_from(studio: Studio) -> None:
    studio.backend.hook(annotated(Annotation(number=7, task=studio.task, mood="Sad"), studio.project))
    studio.api.project["created_at"] = "2020-01-01T00:00:00.000000Z"
    studio.train(lambda: any("/api/projects/" in path for _, path, _ in studio.api.requests))
    studio.finish()
    assert studio.known() == {7}
    assert not any(path == "/api/tasks/" for _, path, _ in studio.api.requests)


def test_a_project_that_is_named_by_its_number_alone_is_learnt(studio: Studio) -> None:
    """As label-studio-ml's server names it."""
    number = str(studio.api.project["id"])
    studio.api.annotate(studio.task, "Sad")
    event = replace(parse_webhook(start_training(studio.project)), project_key=number)
    studio.backend.runtime.learn(event)
    studio.finish()
    with studio.backend.ledger.read() as connection:
        assert len(Annotations(connection, number).ids()) == 1


def test_the_webhook_is_answered_while_label_studio_is_asked(studio: Studio) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def hold(method: str, path: str) -> None:
        asked.set()
        go_on.wait(30)

    studio.api.before = hold
    studio.api.annotate(studio.task, "Sad")
    studio.backend.hook(start_training(studio.project))
    assert asked.wait(30)
    assert studio.backend.client.get("/health").status_code == 200
    assert studio.learnt() == VOTE
    go_on.set()
    wait_until(lambda: studio.learnt() == SAD, "what was fetched")


@pytest.mark.parametrize(
    ("access", "missing"),
    [
        ({}, ["LABEL_STUDIO_URL", "LABEL_STUDIO_API_KEY"]),
        ({"label_studio_url": "http://127.0.0.1:1"}, ["LABEL_STUDIO_API_KEY"]),
        ({"label_studio_api_key": SecretStr(KEY)}, ["LABEL_STUDIO_URL"]),
    ],
)
def test_without_address_or_key_the_log_says_what_is_missing(
    access: dict[str, Any],
    missing: list[str],
    tmp_path: Path,
    api: LabelStudioApi,
    capfd: pytest.CaptureFixture[str],
) -> None:
    studio = Studio(tmp_path, api, **access)
    with studio.backend as backend:
        backend.hook(start_training(studio.project))
        studio.finish()
        [line] = [line for line in "".join(capfd.readouterr()).splitlines() if "catch_up_impossible" in line]
    assert all(
        (f'"{name}"' in line) == (name in missing) for name in ("LABEL_STUDIO_URL", "LABEL_STUDIO_API_KEY")
    )
    assert KEY not in line


def test_a_label_studio_that_is_away_is_in_the_log_without_the_key(
    tmp_path: Path, api: LabelStudioApi, capfd: pytest.CaptureFixture[str]
) -> None:
    access = {"label_studio_url": "http://127.0.0.1:1", "label_studio_api_key": SecretStr(KEY)}
    studio = Studio(tmp_path, api, **access)
    with studio.backend as backend:
        backend.hook(start_training(studio.project))
        studio.finish()
        logged = "".join(capfd.readouterr())
    assert "label_studio_unreachable" in logged
    assert KEY not in logged
