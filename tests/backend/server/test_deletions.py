"""Large deletions: acknowledged once they are marked, and forgotten in the background, also after a crash."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import (
    Annotation,
    Project,
    annotated,
    annotated_in_bulk,
    predict,
    task,
    tasks_deleted,
)
from server_process import wait_until
from sqlalchemy import func, select
from whole_backend import Backend, votes

from backend.learning import actions
from backend.ledger import deletions
from backend.ledger.database import tables

TASKS = range(1, 27)
LABELLED = range(1, 23)
VOTES = votes(red="Glad", green="Glad", blue="Sad")


HELD = (tables.rounds, tables.votes, tables.answers, tables.answer_tasks, tables.tasks_to_forget)


def left(backend: Backend) -> int:
    """How many rows of the ledger hold something about tasks, beside annotations' tombstones."""
    with backend.ledger.read() as connection:
        return sum(connection.scalar(select(func.count()).select_from(table)) or 0 for table in HELD)


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with a prediction for each task, most of them labelled."""
    folder = tmp_path_factory.mktemp("labelled")
    with Backend(folder, VOTES) as backend:
        backend.predict(*(task(number) for number in TASKS))
        backend.hook(annotated_in_bulk([Annotation(number=n, task=n, mood="Sad") for n in LABELLED]))
    return folder / "ledger.sqlite"


@pytest.fixture
def backend(labelled: Path, tmp_path: Path) -> Iterator[Backend]:
    shutil.copy(labelled, tmp_path)
    with Backend(tmp_path, VOTES) as backend:
        yield backend


def test_many_deleted_tasks_are_forgotten_in_the_background(backend: Backend) -> None:
    taught = backend.learnt()
    assert taught["blue"] == (26, 22.0)
    backend.hook(tasks_deleted(*TASKS, *range(1000, 2000)))
    wait_until(lambda: left(backend) == 0, "end of the forgetting")
    assert backend.learnt()["blue"] == (26, 0.0)  # the votes' rewards are back
    assert backend.annotations(1) == []
    assert backend.post("/predict", {"tasks": []}).status_code != 500


def test_deleted_tasks_count_as_deleted_before_they_are_forgotten(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "_forget", lambda *_: None)
    monkeypatch.setattr(backend.runtime._deletions, "wake", lambda: None)
    backend.hook(tasks_deleted(*TASKS))
    before = len(backend.events())
    backend.hook(annotated(Annotation(number=900, task=25, mood="Sad")))
    assert (len(backend.events()), backend.annotations(25)) == (before, [])


def test_a_deletion_that_a_crash_interrupted_is_finished_after_the_start(
    tmp_path: Path, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend.runtime._deletions, "wake", lambda: None)
    backend.hook(tasks_deleted(*TASKS))
    assert left(backend) > 26
    with Backend(tmp_path, VOTES) as restarted:
        wait_until(lambda: left(restarted) == 0, "end of the forgetting")
        assert restarted.learnt()["blue"] == (26, 0.0)


def forget_all(backend: Backend) -> list[int]:
    """Delete every task, and say how many each transaction forgets."""
    sizes: list[int] = []
    with backend.ledger.write() as connection:
        deletions.mark_deleted(connection, Project().key, TASKS, 1.0)
    more = True
    while more:
        before = _waiting(backend)
        with backend.ledger.write() as connection:
            more = actions.forget_next(connection, backend.runtime.settings, 1.0)
        sizes.append(before - _waiting(backend))
    return sizes


def test_no_transaction_takes_more_than_a_few_labelled_tasks(backend: Backend) -> None:
    assert forget_all(backend) == [20, 6, 0]  # twenty of the labelled ones, then everything else
    assert left(backend) == 0


def test_nor_more_than_some_whose_texts_taught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "_UNTAUGHT", 10)
    with Backend(tmp_path, VOTES, policy={"name": "joint"}) as backend:
        backend.predict(*(task(number) for number in TASKS))
        assert len(backend.state().texts.texts) == 26
        assert forget_all(backend) == [10, 10, 6, 0]
        assert (left(backend), backend.state().texts.texts) == (0, [])


def _waiting(backend: Backend) -> Any:
    with backend.ledger.read() as connection:
        return connection.scalar(select(func.count()).select_from(tables.tasks_to_forget))


def test_no_model_is_asked_about_a_deleted_task(backend: Backend) -> None:
    backend.hook(tasks_deleted(1))
    asked = backend.server.count()
    answer = backend.post("/predict", predict([task(1), task(2)])).get_json()
    assert (answer["results"][0], answer["reasons"][0]["code"]) == ([], "task_deleted")
    assert answer["results"][1]
    assert backend.server.count() == asked
