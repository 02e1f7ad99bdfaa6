"""Each model's own vote beside the ensemble's, as a list of predictions for Label Studio."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import SENTIMENT_AND_TOPIC, Project, choice, predict, setup, task
from label_studio_sdk.label_interface import LabelInterface
from whole_backend import Backend, says, votes

from backend.testing import Reply

SPLIT = votes(red="Glad", green="Glad", blue="Sad")
BOTH = Project(label_config=SENTIMENT_AND_TOPIC)


def label_of(prediction: dict[str, Any]) -> str:
    (region,) = prediction["result"]
    label: str = region["value"]["choices"][0]
    return label


def test_one_prediction_a_task_is_returned_unless_votes_are_asked_for(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT) as backend:
        (prediction,) = backend.predict(task(1))
    assert prediction["model_version"] == "camvo"


def test_every_model_signs_its_prediction_and_the_ensembles_comes_last(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT, show_votes=True) as backend:
        (predictions,) = backend.predict(task(1))
    assert [(one["model_version"], label_of(one)) for one in predictions] == [
        ("camvo/blue", "Sad"),
        ("camvo/green", "Glad"),
        ("camvo/red", "Glad"),
        ("camvo", "Glad"),
    ]


def test_a_votes_score_is_the_models_correctness_in_the_plan(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT, show_votes=True) as backend:
        (predictions,) = backend.predict(task(1))
        (round_,) = backend.rounds(1)
    for prediction in predictions[:-1]:
        arm = prediction["model_version"].removeprefix("camvo/")
        expected = round_.plan["arms"][arm]["correctness"]
        assert prediction["score"] == prediction["result"][0]["score"] == expected


def test_the_ensembles_prediction_is_the_same_as_without_the_votes(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT) as backend:
        (alone,) = backend.predict(task(1))
    with Backend(tmp_path, SPLIT, show_votes=True) as backend:
        (predictions,) = backend.predict(task(1))
        assert backend.server.count() == 0
    assert predictions[-1] == alone


def test_a_model_that_failed_shows_no_vote(tmp_path: Path) -> None:
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue=None), show_votes=True) as backend:
        (predictions,) = backend.predict(task(1))
    assert [one["model_version"] for one in predictions] == ["camvo/green", "camvo/red", "camvo"]


def test_a_model_that_answered_one_question_of_two_shows_that_one(tmp_path: Path) -> None:
    def script(body: dict[str, Any]) -> Reply:
        return says(mood="Glad") if body["model"] == "blue" else says(mood="Sad", topic="Food")

    with Backend(tmp_path, script, show_votes=True) as backend:
        (predictions,) = backend.predict(task(1), project=BOTH)
    answered = {one["model_version"]: [r["from_name"] for r in one["result"]] for one in predictions}
    assert answered["camvo/blue"] == ["mood"]
    assert answered["camvo/red"] == ["mood", "topic"]
    red = next(one for one in predictions if one["model_version"] == "camvo/red")
    assert red["score"] == pytest.approx(math.prod(region["score"] for region in red["result"]))


def test_every_prediction_passes_the_sdks_validation(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT, show_votes=True) as backend:
        (predictions,) = backend.predict(task(1))
    interface = LabelInterface(Project().label_config)
    for prediction in predictions:
        assert interface.validate_prediction(prediction, return_errors=True) == []


def test_a_project_switches_its_votes_on_by_itself(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT) as backend:
        backend.post("/setup", setup(extra_params={"show_votes": True}))
        (shown,) = backend.predict(task(1))
        (alone,) = backend.predict(task(1), project=Project(number=8))
    assert (len(shown), alone["model_version"]) == (4, "camvo")


def test_a_task_that_is_kept_blind_shows_no_vote(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT, show_votes=True, audit=0.999999) as backend:
        assert backend.predict(task(1)) == [[]]
        assert len(backend.rounds(1)) == 1


def test_the_editor_which_takes_one_prediction_is_given_the_ensembles(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT, show_votes=True) as backend:
        body = predict([task(1), "no task"], context={"result": [choice("Sad")]})
        prediction, nothing = backend.post("/predict", body).get_json()["results"]
    assert (prediction["model_version"], nothing) == ("camvo", [])
