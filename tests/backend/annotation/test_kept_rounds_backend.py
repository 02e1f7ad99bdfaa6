"""Rounds with a human label through the whole backend: what is kept of them, corrected and taken back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import (
    Annotation,
    annotated,
    annotations_deleted,
    task,
    tasks_deleted,
    updated,
)
from same_state import assert_same_state
from whole_backend import Backend, votes

from camvo.state.contribution import KeptRound

MODELS = ("amber", "blue", "green", "red", "violet")
JOINT = {"name": "joint"}
OUTVOTED = votes(amber="Glad", blue="Glad", green="Glad", red="Glad", violet="Sad")


def kept_rounds(backend: Backend) -> list[KeptRound]:
    return backend.state().kept_rounds.rounds


def test_a_round_with_a_human_label_is_kept_with_its_votes(tmp_path: Path) -> None:
    """A label that equals the voted one is kept too, although no reward changes."""
    with Backend(tmp_path, OUTVOTED, MODELS, policy=JOINT) as backend:
        backend.predict(task(1), task(2))
        backend.hook(annotated(Annotation(number=1, task=1, mood="Glad")))
        [round_], [row] = backend.rounds(1), kept_rounds(backend)
    assert row.label == "Glad"
    assert dict(round_.votes) == {vote.arm: vote.label for vote in row.votes}


def test_a_model_that_fails_is_kept_as_one_that_said_nothing(tmp_path: Path) -> None:
    said = dict.fromkeys(MODELS, "Glad") | {"blue": None}
    with Backend(tmp_path, votes(**said), MODELS, policy=JOINT, student=False) as backend:
        backend.predict(task(1))
        backend.hook(annotated(Annotation(number=1, task=1, mood="Glad")))
        [row] = kept_rounds(backend)
    assert {vote.arm: vote.label for vote in row.votes} == said


def test_the_latest_version_of_a_human_label_is_the_one_that_is_kept(tmp_path: Path) -> None:
    with Backend(tmp_path, OUTVOTED, MODELS, policy=JOINT) as backend:
        backend.predict(task(1))
        first = Annotation(number=1, task=1, mood="Glad")
        backend.hook(annotated(first))
        backend.hook(updated(first.again(mood="Calm")))
        assert [row.label for row in kept_rounds(backend)] == ["Calm"]


def deleted(annotation: Annotation) -> dict[str, Any]:
    return annotations_deleted(annotation.number)


def skipped(annotation: Annotation) -> dict[str, Any]:
    return updated(annotation.again(skipped=True))


def task_deleted(annotation: Annotation) -> dict[str, Any]:
    return tasks_deleted(annotation.task)


@pytest.mark.parametrize("withdrawn", [deleted, skipped, task_deleted])
@pytest.mark.parametrize("mood", ["Glad", "Sad"])
def test_a_human_label_that_is_withdrawn_leaves_the_state_as_it_was(
    tmp_path: Path, withdrawn: Callable[[Annotation], dict[str, Any]], mood: str
) -> None:
    with Backend(tmp_path, OUTVOTED, MODELS, policy=JOINT) as backend:
        backend.predict(task(1), task(2))
        before = backend.state()
        annotation = Annotation(number=1, task=1, mood=mood)
        backend.hook(annotated(annotation))
        assert len([row for row in kept_rounds(backend) if row.label]) == 1
        backend.hook(withdrawn(annotation))
        assert_same_state(backend.state(), before)


def test_a_human_label_teaches_the_same_before_the_round_and_after_it(tmp_path: Path) -> None:
    """An early label is taught by the policy before storage, a late one from the stored round."""
    webhook = annotated(Annotation(number=1, task=1, mood="Sad"))
    for name in ("after", "before"):
        (tmp_path / name).mkdir()
    with Backend(tmp_path / "after", OUTVOTED, MODELS, policy=JOINT) as backend:
        backend.predict(task(1))
        backend.hook(webhook)
        after = backend.state()
    with Backend(tmp_path / "before", OUTVOTED, MODELS, policy=JOINT) as backend:
        backend.hook(webhook)
        backend.predict(task(1))
        assert_same_state(backend.state(), after)


def test_human_labels_that_do_not_teach_are_not_kept(tmp_path: Path) -> None:
    with Backend(tmp_path, OUTVOTED, MODELS, policy=JOINT, human_rewards=False) as backend:
        backend.predict(task(1))
        backend.hook(annotated(Annotation(number=1, task=1, mood="Sad")))
        assert not kept_rounds(backend)
