"""The student through the whole backend: taught by rounds and people, asked before the models, free."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from label_studio_requests import Annotation, annotated, annotations_deleted, task
from stored_events import append_events
from whole_backend import Backend, votes

from backend.errors import ConfigError
from backend.settings import load
from camvo.state.contribution import Contribution
from camvo.student.ngrams import hashed_ngrams
from camvo.student.taught_texts import STUDENT, TaughtText

SUNNY, GREY = "The sun shines over warm meadows", "The rain falls on cold grey streets"


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Backend]:
    script = votes(red="Glad", green="Glad", blue="Sad")
    with Backend(tmp_path, script, policy={"name": "joint"}) as running:
        yield running


def teach(backend: Backend, count: int) -> None:
    """Store what so many rounds on sunny and grey texts would have taught the student."""
    [round_] = backend.rounds(1)
    context = np.zeros_like(round_.context)
    texts = [(f"{SUNNY} {n}", "Glad") if n % 2 else (f"{GREY} {n}", "Sad") for n in range(count)]
    taught = [TaughtText(hashed_ngrams(text), label) for text, label in texts]
    append_events(
        backend.ledger, round_.key, [Contribution(context, (), rounds=0, taught=each) for each in taught]
    )


def wait_until_taught(backend: Backend) -> None:
    students = backend.runtime._jobs._annotator._planner._students
    backend.runtime._thread.submit(students.settled()).result(60.0)


def taught(backend: Backend) -> list[tuple[bytes, str]]:
    return [tuple(text) for text in backend.state().texts.texts]


def test_a_round_teaches_the_label_that_the_models_voted_for(backend: Backend) -> None:
    backend.predict(task(1, text=SUNNY))
    assert taught(backend) == [(hashed_ngrams(SUNNY), "Glad")]


def test_a_human_label_replaces_it_and_goes_with_the_annotation(backend: Backend) -> None:
    backend.predict(task(1, text=SUNNY))
    said = Annotation(number=5, task=1, mood="Sad")
    backend.hook(annotated(said))
    assert taught(backend) == [(hashed_ngrams(SUNNY), "Sad")]
    backend.hook(annotations_deleted(5))
    assert taught(backend) == [(hashed_ngrams(SUNNY), "Glad")]


def test_a_taught_student_votes_for_nothing(backend: Backend) -> None:
    backend.predict(task(1, text="Nothing of note"))
    teach(backend, 400)
    backend.predict(task(2, text="Nothing of note either"))  # from now on a student is taught
    wait_until_taught(backend)
    backend.predict(task(3, text=GREY))
    [round_] = backend.rounds(3)
    assert round_.votes[STUDENT] == "Sad"
    assert round_.plan["confidences"][STUDENT] > 0.8
    assert round_.cost_usd == pytest.approx(backend.rounds(1)[0].cost_usd)
    assert round_.plan["arms"][STUDENT]["cost"] == 0.0
    assert taught(backend)[-1] == (hashed_ngrams(GREY), "Glad"), "the student is no witness"


def models_of_status(backend: Backend) -> list[str]:
    report = backend.client.get("/status", headers={"Accept": "application/json"}).get_json()
    return [model["name"] for model in report["projects"][0]["models"]]


def test_the_status_lists_it_once_it_has_voted(backend: Backend) -> None:
    backend.predict(task(1, text="Nothing of note"))
    assert models_of_status(backend) == ["blue", "green", "red"]
    teach(backend, 400)
    backend.predict(task(2, text="Nothing of note either"))
    wait_until_taught(backend)
    backend.predict(task(3, text=GREY))
    assert models_of_status(backend) == ["blue", "green", "red", STUDENT]


def test_a_model_may_not_have_its_name(tmp_path: Path) -> None:
    path = tmp_path / "camvo.yaml"
    path.write_text("models: [{name: student, model: openai/x}]\nstudent: true\n")
    with pytest.raises(ConfigError, match="student's name"):
        load(path)


@pytest.mark.parametrize(
    "settings",
    [
        {"policy": {"name": "joint"}, "student": False},
        {"policy": {"name": "sequential"}},
        {"policy": {"name": "joint"}, "models": ("red", "green", "student")},
    ],
)
def test_where_it_is_off_nothing_is_kept_of_a_text(settings: dict[str, Any], tmp_path: Path) -> None:
    script = votes(red="Glad", green="Glad", blue="Sad", student="Sad")
    with Backend(tmp_path, script, **settings) as backend:
        backend.predict(task(1, text=SUNNY))
        [round_] = backend.rounds(1)
        assert "studied" not in round_.plan
        assert set(round_.votes) == set(settings.get("models", ("red", "green", "blue")))
        assert taught(backend) == []


def test_sequential_has_it_if_the_settings_say_so(tmp_path: Path) -> None:
    script = votes(red="Glad", green="Glad", blue="Sad")
    with Backend(tmp_path, script, policy={"name": "sequential"}, student=True) as backend:
        backend.predict(task(1, text=SUNNY))
        assert taught(backend) == [(hashed_ngrams(SUNNY), "Glad")]


def test_rounds_from_before_it_was_on_teach_it_nothing(tmp_path: Path) -> None:
    script = votes(red="Glad", green="Glad", blue="Sad")
    with Backend(tmp_path, script, policy={"name": "joint"}, student=False) as backend:
        backend.predict(task(1, text=SUNNY))
    with Backend(tmp_path, script, policy={"name": "joint"}) as backend:
        backend.predict(task(2, text=GREY))
        assert len(taught(backend)) == 1
        assert STUDENT not in backend.rounds(1)[0].votes
