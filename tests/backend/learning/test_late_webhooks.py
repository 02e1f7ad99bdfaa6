"""Webhooks that come late: Label Studio promises no order, and what is newer stays."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from label_studio_api import KEY, LabelStudioApi
from label_studio_requests import (
    MORE_MOODS,
    Annotation,
    Project,
    annotated,
    project_updated,
    start_training,
    task,
    updated,
)
from pydantic import SecretStr
from server_process import wait_until
from whole_backend import Backend, votes

from backend.ledger import projects

BEFORE = Project(instructions="Judge the writer.")
AFTER = BEFORE.again(label_config=MORE_MOODS, instructions="Judge the reader.", model_version="new")
SPLIT = votes(red="Glad", green="Glad", blue="Sad")


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Backend]:
    """A backend whose project was changed, and whose task 1 was predicted before."""
    with Backend(tmp_path, SPLIT) as backend:
        backend.predict(task(1), project=BEFORE)
        backend.hook(project_updated(AFTER))
        yield backend


def told(backend: Backend, project: Project = AFTER) -> tuple[Any, ...]:
    """What the ledger says of the project."""
    with backend.ledger.read() as connection:
        stored = projects.get(connection, project.key)
    assert stored is not None
    return stored.label_config, stored.instructions, stored.model_version


@pytest.mark.parametrize("again", [{"mood": "Glad"}, {"skipped": True}, {"ground_truth": True}])
def test_an_older_update_of_an_annotation_after_a_newer_one_changes_nothing(
    backend: Backend, again: dict[str, Any]
) -> None:
    first = Annotation(number=1, task=1, mood="Sad", user=1)
    older = first.again(**again)
    newer = older.again(mood="Calm", skipped=False, ground_truth=False)
    for body in (annotated(first), updated(newer), updated(older), annotated(first)):
        backend.hook(body)
    [stored] = backend.annotations(1)
    assert (stored.labels, stored.teaches, stored.ground_truth) == ({"mood": "Calm"}, True, False)
    assert backend.rounds(1)[0].taught == "Calm"


def test_an_annotation_from_before_a_change_of_the_project_does_not_undo_it(backend: Backend) -> None:
    changed = told(backend)
    backend.hook(annotated(Annotation(number=1, task=1, mood="Sad"), BEFORE))
    assert told(backend) == changed == (MORE_MOODS, "Judge the reader.", "new")


def test_an_annotation_from_before_a_change_of_the_project_teaches(backend: Backend) -> None:
    backend.hook(annotated(Annotation(number=1, task=1, mood="Sad"), BEFORE))
    assert backend.rounds(1)[0].taught == "Sad"


def test_a_later_change_of_the_project_counts(backend: Backend) -> None:
    backend.hook(project_updated(AFTER.again(instructions="")))
    assert told(backend) == (MORE_MOODS, "", "new")


@pytest.mark.parametrize("time", [None, "", 5])
def test_a_project_without_the_time_of_its_change_counts_as_it_comes(backend: Backend, time: object) -> None:
    body = project_updated(BEFORE)
    body["project"]["updated_at"] = time
    backend.hook(body)
    assert told(backend) == (BEFORE.label_config, "Judge the writer.", "camvo")


def test_a_change_of_the_project_while_annotations_are_fetched_stays(tmp_path: Path) -> None:
    with LabelStudioApi() as api:
        [number] = api.add_tasks("A note.")
        api.annotate(number, "Sad")
        before = Project(number=api.project["id"], instructions="Judge the writer.")
        api.project["created_at"] = before.payload()["created_at"]
        asked, go_on = threading.Event(), threading.Event()

        def hold(method: str, path: str) -> None:
            asked.set()
            go_on.wait(30)

        api.before = hold
        access = {"label_studio_url": api.url, "label_studio_api_key": SecretStr(KEY)}
        with Backend(tmp_path, SPLIT, environment=access) as backend:
            backend.hook(start_training(before))
            assert asked.wait(30)
            after = before.again(instructions="Judge the reader.")
            backend.hook(project_updated(after))
            go_on.set()
            wait_until(lambda: backend.annotations(number, after), "the fetched annotation")
            assert told(backend, after)[1] == "Judge the reader."
