"""Votes that say how sure, through the whole backend: asked for, stored, used again, learnt."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import Annotation, annotated, task
from whole_backend import Backend

from backend.testing import Reply
from camvo.state.contribution import SureVote, level_of

SURE = {"red": 0.9, "green": 0.6, "blue": None}
"""How sure each model says it is; blue's provider does not say."""


def script(body: dict[str, Any]) -> Reply:
    sure = SURE[body["model"]]
    if sure is None:
        return Reply.says({"mood": "Glad"})
    others = {"Gl": math.log(sure), "S": math.log(1.0 - sure)}
    tokens = [('{"mood": "', 0.0), ("Gl", math.log(sure), others), ("ad", 0.0), ('"}', 0.0)]
    return Reply.says({"mood": "Glad"}, logprobs=tokens)


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Backend]:
    entries = {"logprobs": True}
    with Backend(tmp_path, script, entries=entries, policy={"name": "joint", "agreement": 0.99}) as running:
        yield running


def stored(backend: Backend, number: int) -> dict[str, float]:
    [round_] = backend.rounds(number)
    confidences: dict[str, float] = round_.plan["confidences"]
    return confidences


def test_a_round_holds_how_sure_each_model_was(backend: Backend) -> None:
    backend.predict(task(1))
    assert stored(backend, 1) == {"red": pytest.approx(0.9), "green": pytest.approx(0.6)}


def test_a_stored_answer_says_it_again(backend: Backend) -> None:
    backend.predict(task(1, text="The same text."))
    backend.predict(task(2, text="The same text."))
    assert backend.server.count() == 3
    assert stored(backend, 2) == stored(backend, 1)


def test_the_state_learns_from_other_models_and_from_people(backend: Backend) -> None:
    backend.predict(task(1))
    right = {
        SureVote("red", "Glad", level_of(0.9), True): 1,
        SureVote("green", "Glad", level_of(0.6), True): 1,
    }
    assert backend.state().confidences.by_others == right
    backend.hook(annotated(Annotation(number=5, task=1, mood="Sad")))
    assert backend.state().confidences.by_people == {vote._replace(right=False): 1 for vote in right}
    assert backend.state().confidences.by_others == right


def test_without_the_setting_nothing_is_asked_or_stored(tmp_path: Path) -> None:
    with Backend(tmp_path, script, policy={"name": "joint", "agreement": 0.99}) as backend:
        backend.predict(task(1))
        assert not any("logprobs" in request.body for request in backend.server.requests)
