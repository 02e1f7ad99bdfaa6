"""The student through the whole backend: taught by rounds and people, asked before the models, free."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from label_studio_requests import Annotation, annotated, annotations_deleted, task, tasks_deleted
from scripted_litellm import HashedTexts
from sqlalchemy import Column, select, update
from stored_events import append_events
from whole_backend import Backend, votes

from backend import upkeep
from backend.errors import ConfigError
from backend.ledger import rounds
from backend.ledger.database import tables
from backend.ledger.database.packing import _decompress
from backend.ledger.events import StateKey, StateRecords
from backend.settings import load
from backend.upkeep import _nothing
from camvo.state.contribution import Contribution
from camvo.state.state import State
from camvo.student import STUDENT, TaughtText, TaughtTexts, hashed_ngrams

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

    async def taught() -> None:
        while under_way := students._cache._under_way:
            await asyncio.wait([*under_way.values()])

    backend.runtime._thread.submit(taught()).result(60.0)


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


def test_a_student_is_silent_about_a_task_that_is_asked_again_because_labels_changed(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.predict(task(1, text="Nothing of note"))
    teach(backend, 400)
    backend.predict(task(2, text="Nothing of note either"))
    wait_until_taught(backend)
    monkeypatch.setattr(
        rounds, "asked_before_labels_changed", lambda _, keys: {key for key in keys if key.task == 3}
    )
    backend.predict(task(3, text=GREY), task(4, text=SUNNY))
    assert backend.rounds(3)[0].votes.get(STUDENT) is None
    assert backend.rounds(4)[0].votes[STUDENT] == "Glad"
    assert (hashed_ngrams(GREY), "Glad") in taught(backend), "it learns from the task all the same"


def raw(backend: Backend, column: Column[Any]) -> list[Any]:
    """A column as it is stored, in the order of its rows."""
    with backend.ledger.read() as connection:
        return list(connection.scalars(select(column)))


def from_zero(backend: Backend) -> TaughtTexts:
    """The texts of a state that is added up from all events."""
    return backend.state().texts


def running(backend: Backend) -> list[tuple[bytes, str]]:
    """The texts of the state that the server keeps in memory, after the latest event."""
    states = backend.runtime._jobs._annotator._planner._states
    [(key, copy)] = states._copies.items()
    form = {"dimension": HashedTexts.dimension, "lambda_l": copy.state.lambda_l, "linear": copy.state.linear}
    state = backend.runtime._thread.submit(states.current(key, **form)).result(60.0)
    assert state is copy.state, "it was not restored from the ledger"
    return [tuple(text) for text in state.texts.texts]


def problems(backend: Backend) -> list[Any]:
    with backend.ledger.read() as connection:
        return list(upkeep.problems(connection, _nothing))


def test_the_n_grams_are_stored_once_beside_the_context(backend: Backend) -> None:
    backend.predict(task(1, text=SUNNY))
    ngrams = hashed_ngrams(SUNNY)
    assert backend.rounds(1)[0].text == ngrams
    assert backend.rounds(1)[0].plan["studied"] == ["Glad"]
    [packed], [context] = raw(backend, tables.events.c.contribution), raw(backend, tables.contexts.c.context)
    assert ngrams in context
    assert json.loads(_decompress(packed))["taught"] == ["Glad"]


def test_a_human_label_adds_no_n_grams(backend: Backend) -> None:
    backend.predict(task(1, text=SUNNY))
    backend.hook(annotated(Annotation(number=5, task=1, mood="Sad")))
    [_, packed] = raw(backend, tables.events.c.contribution)
    header = json.loads(_decompress(packed))
    assert (header["taught"], header["untaught"]) == (["Sad"], ["Glad"])
    assert problems(backend) == []


def holds(backend: Backend, text: str) -> bool:
    """Whether the ledger has the n-grams of a text in its events, plans or contexts."""
    stored = [_decompress(each) for each in raw(backend, tables.events.c.contribution)]
    stored += [json.dumps(plan).encode() for plan in raw(backend, tables.rounds.c.plan)]
    stored += raw(backend, tables.contexts.c.context)
    ngrams = hashed_ngrams(text)
    as_json, _ = TaughtText(ngrams, "").to_list()
    return any(form in each for each in stored for form in (ngrams, as_json.encode()))


def test_the_n_grams_of_a_deleted_task_are_nowhere(backend: Backend) -> None:
    backend.predict(task(1, text=SUNNY), task(2, text=GREY))
    assert holds(backend, SUNNY)
    backend.hook(tasks_deleted(1))
    assert backend.rounds(1) == []
    assert not holds(backend, SUNNY)
    assert holds(backend, GREY)
    assert taught(backend) == [(hashed_ngrams(GREY), "Glad")]
    assert problems(backend) == []


def test_a_running_state_forgets_them_as_one_from_zero_does(backend: Backend) -> None:
    backend.predict(task(1, text=SUNNY), task(2, text=GREY))
    assert len(running(backend)) == 2
    backend.hook(tasks_deleted(1))
    assert running(backend) == taught(backend) == [(hashed_ngrams(GREY), "Glad")]


def test_so_does_the_state_of_another_process(backend: Backend, tmp_path: Path) -> None:
    backend.predict(task(1, text=SUNNY))
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Sad"), policy={"name": "joint"}) as other:
        other.predict(task(2, text=GREY))
        assert len(running(other)) == 2
        backend.hook(tasks_deleted(1))
        assert running(other) == [(hashed_ngrams(GREY), "Glad")]


def test_what_the_votes_on_a_deleted_task_taught_of_the_models_stays(backend: Backend) -> None:
    backend.predict(task(1, text=SUNNY), task(2, text=GREY))
    before = backend.learnt()
    backend.hook(tasks_deleted(1))
    assert (backend.learnt(), backend.state().rounds) == (before, 2)


@pytest.mark.parametrize(("gone", "stays"), [(1, 2), (2, 1)])
def test_the_text_of_a_deleted_task_with_a_human_label_goes_too(
    backend: Backend, gone: int, stays: int
) -> None:
    texts = {1: SUNNY, 2: GREY}
    backend.predict(task(1, text=SUNNY), task(2, text=GREY))
    for number in texts:
        backend.hook(annotated(Annotation(number=number, task=number, mood="Sad")))
    assert len(running(backend)) == 2
    backend.hook(tasks_deleted(gone))
    assert running(backend) == taught(backend) == [(hashed_ngrams(texts[stays]), "Sad")]
    assert not holds(backend, texts[gone])
    assert problems(backend) == []


@pytest.mark.parametrize("gone", [1, 3])
def test_another_task_with_the_same_text_goes_on_teaching(backend: Backend, gone: int) -> None:
    for number, text in ((1, SUNNY), (2, GREY), (3, SUNNY)):
        backend.predict(task(number, text=text))
    assert len(running(backend)) == 3
    left = [(hashed_ngrams(SUNNY), "Glad"), (hashed_ngrams(GREY), "Glad")]
    backend.hook(tasks_deleted(gone))
    assert running(backend) == taught(backend) == left
    backend.hook(tasks_deleted(4 - gone))
    assert running(backend) == taught(backend) == left[1:]
    assert not holds(backend, SUNNY)
    assert problems(backend) == []


def test_deleting_a_task_again_forgets_nothing_more(backend: Backend) -> None:
    backend.predict(task(1, text=SUNNY), task(2, text=SUNNY))
    for _ in range(2):
        backend.hook(tasks_deleted(1))
        assert len(backend.events()) == 3
        assert running(backend) == taught(backend) == [(hashed_ngrams(SUNNY), "Glad")]


def test_a_snapshot_from_before_the_deletion_forgets_by_its_event(backend: Backend) -> None:
    backend.predict(task(1, text=SUNNY), task(2, text=GREY))
    key, saved = backend.rounds(1)[0].key, backend.state().snapshot()
    with backend.ledger.write() as connection:
        StateRecords(connection, StateKey(key.project, key.control, key.epoch)).save_snapshot(
            2, saved, now=1.0
        )
    backend.hook(tasks_deleted(1))
    assert problems(backend) == []
    state = State.restore(saved)
    state.add(*(Contribution.unpack(event.contribution) for event in backend.events()[2:]))
    assert state.texts == from_zero(backend)
    assert state.texts.texts == [(hashed_ngrams(GREY), "Glad")]


def fold(backend: Backend) -> State:
    """Fold every event, as a prune does, while the rounds are too young to be pruned; return the sum."""
    key = backend.rounds(2)[0].key
    with backend.ledger.write() as connection:
        connection.execute(update(tables.events).values(created_at=1.0))
    upkeep.prune(backend.ledger, key.project, 86400.0, lambda_l=1.0, advance=_nothing)
    assert backend.events() == []
    with backend.ledger.read() as connection:
        base = StateRecords(connection, StateKey(key.project, key.control, key.epoch)).base()
    assert base is not None
    return State.restore(base.state)


def test_a_base_from_after_the_deletion_never_knew_the_text(backend: Backend) -> None:
    backend.predict(task(1, text=SUNNY), task(2, text=GREY))
    backend.hook(tasks_deleted(1))
    assert fold(backend).texts.texts == [(hashed_ngrams(GREY), "Glad")]
    upkeep.forget_orphans(backend.ledger)
    assert len(raw(backend, tables.contexts.c.context)) == 1, "the seal is gone"
    assert problems(backend) == []


def test_a_base_from_before_the_deletion_forgets_the_text_of_a_round_that_is_not_pruned(
    backend: Backend,
) -> None:
    backend.predict(task(1, text=SUNNY), task(2, text=GREY))
    base = fold(backend)
    backend.hook(tasks_deleted(1))
    base.add(*(Contribution.unpack(event.contribution) for event in backend.events()))
    left = [(hashed_ngrams(GREY), "Glad")]
    assert base.texts.texts == running(backend) == fold(backend).texts.texts == left
    assert problems(backend) == []


def test_a_prune_deletes_the_n_grams_of_rounds_and_keeps_what_they_taught(backend: Backend) -> None:
    backend.predict(task(1, text=SUNNY))
    before, key = backend.state().texts, backend.rounds(1)[0].key
    with backend.ledger.write() as connection:
        connection.execute(update(tables.rounds).values(created_at=1.0))
        connection.execute(update(tables.events).values(created_at=1.0))
    upkeep.prune(backend.ledger, key.project, 86400.0, lambda_l=1.0, advance=_nothing)
    [round_] = backend.rounds(1)
    assert (round_.pruned, round_.text, "studied" in round_.plan) == (True, b"", False)
    assert raw(backend, tables.contexts.c.context) == []
    with backend.ledger.read() as connection:
        base = StateRecords(connection, StateKey(key.project, key.control, key.epoch)).base()
    assert base is not None
    assert State.restore(base.state).texts == before
    assert problems(backend) == []


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
    path.write_text("models: [{name: student, model: openai/x}]\nstudent: false\n")
    with pytest.raises(ConfigError, match="name of the student"):
        load(path)


@pytest.mark.parametrize(
    "settings",
    [
        {"policy": {"name": "joint"}, "student": False},
        {"policy": {"name": "joint", "agreement": 0.99}},
    ],
)
def test_where_it_is_off_nothing_is_kept_of_a_text(settings: dict[str, Any], tmp_path: Path) -> None:
    script = votes(red="Glad", green="Glad", blue="Sad")
    with Backend(tmp_path, script, **settings) as backend:
        backend.predict(task(1, text=SUNNY))
        [round_] = backend.rounds(1)
        assert "studied" not in round_.plan
        assert set(round_.votes) == {"red", "green", "blue"}
        assert taught(backend) == []


def test_rounds_from_before_it_was_on_teach_it_nothing(tmp_path: Path) -> None:
    script = votes(red="Glad", green="Glad", blue="Sad")
    with Backend(tmp_path, script, policy={"name": "joint"}, student=False) as backend:
        backend.predict(task(1, text=SUNNY))
    with Backend(tmp_path, script, policy={"name": "joint"}) as backend:
        backend.predict(task(2, text=GREY))
        assert len(taught(backend)) == 1
        assert STUDENT not in backend.rounds(1)[0].votes
