"""Spans, region classes and images in the real app: what is asked, predicted, stored and learnt."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import Annotation, Project, annotated, task
from label_studio_sdk.label_interface.interface import LabelInterface
from whole_backend import Backend, says

from backend.ledger.database import tables
from backend.testing import Reply

SPANS = Project(
    label_config="""<View>
  <Text name="text" value="$text"/>
  <Labels name="ner" toName="text"><Label value="Person" alias="PER"/><Label value="Place"/></Labels>
  <Choices name="role" toName="text" perRegion="true" whenTagName="ner" whenLabelValue="Person">
    <Choice value="guest"/><Choice value="host"/>
  </Choices>
  <HyperText name="page" value="$page"/>
  <HyperTextLabels name="links" toName="page"><Label value="Name"/></HyperTextLabels>
  <Paragraphs name="talk" value="$talk"/>
  <ParagraphLabels name="claims" toName="talk"><Label value="Claim"/></ParagraphLabels>
  <Table name="facts" value="$facts"/><Chat name="chat" value="$chat"/>
  <Choices name="kind" toName="facts"><Choice value="Visit"/><Choice value="Bill"/></Choices>
  <Choices name="tone" toName="chat"><Choice value="Warm"/><Choice value="Cold"/></Choices>
</View>"""
)
DATA = {
    "text": "Ann stayed with Bob in Rome.",
    "page": "<p>Ann &amp; <b>Bob</b></p>",
    "talk": [{"author": "Ann", "text": "It rained."}, {"author": "Bob", "text": "It never rains."}],
    "facts": {"nights": 3, "City": "Rome"},
    "chat": [{"role": "user", "content": "Hello!"}, {"role": "assistant", "content": "Welcome back."}],
}


def quote(words: str, label: str) -> dict[str, str]:
    return {"quote": words, "before": "", "label": label}


RED = {
    "ner": [quote("Ann", "Person"), quote("Bob", "Person"), quote("Rome", "Place")],
    "role": [quote("Ann", "guest"), quote("Bob", "host")],
    "links": [quote("Bob", "Name")],
    "claims": [quote("It never rains", "Claim")],
    "kind": "Visit",
    "tone": "Warm",
}
GREEN = RED | {
    "ner": [quote("Ann", "Person"), quote("Bob", "Person")],
    "role": [quote("Ann", "guest"), quote("Bob", "guest")],
}
BLUE = RED | {
    "ner": [quote("Rome", "Place")],
    "role": [],
    "links": [],
    "claims": [quote("nobody said this", "Claim")],
}


def script(body: dict[str, Any]) -> Reply:
    return says(**{"red": RED, "green": GREEN, "blue": BLUE}[body["model"]])


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with Backend(tmp_path_factory.mktemp("spans"), script) as backend:
        yield backend


@pytest.fixture(scope="module")
def prediction(backend: Backend) -> dict[str, Any]:
    [prediction] = backend.predict(task(1, project=SPANS, data=DATA), project=SPANS)
    return prediction


def regions(prediction: dict[str, Any], control: str) -> list[dict[str, Any]]:
    return [region for region in prediction["result"] if region["from_name"] == control]


def test_label_studio_accepts_the_whole_prediction(prediction: dict[str, Any]) -> None:
    interface = LabelInterface(SPANS.label_config)
    assert interface.validate_prediction(prediction, return_errors=True) == []


def test_the_spans_that_most_marked_are_predicted(prediction: dict[str, Any]) -> None:
    assert [region["value"] for region in regions(prediction, "ner")] == [
        {"start": 0, "end": 3, "text": "Ann", "labels": ["PER"]},
        {"start": 16, "end": 19, "text": "Bob", "labels": ["PER"]},
        {"start": 23, "end": 27, "text": "Rome", "labels": ["Place"]},
    ]
    assert regions(prediction, "links")[0]["value"]["globalOffsets"] == {"start": 6, "end": 9}
    assert regions(prediction, "claims")[0]["value"]["start"] == "1"


def test_a_region_gets_the_class_that_most_gave_it(prediction: dict[str, Any]) -> None:
    (role,) = regions(prediction, "role")
    ann = regions(prediction, "ner")[0]
    assert role["id"] == ann["id"]
    assert role["value"] == {"start": 0, "end": 3, "text": "Ann", "choices": ["guest"]}


def test_a_table_and_a_chat_are_read_as_text(backend: Backend, prediction: dict[str, Any]) -> None:
    assert regions(prediction, "kind")[0]["value"] == {"choices": ["Visit"]}
    shown = backend.server.requests[0].body["messages"][1]["content"]
    assert "\nCity: Rome\nnights: 3\n" in shown
    assert "\nuser: Hello!\nassistant: Welcome back.\n" in shown


def test_votes_are_stored_as_spans_and_an_answer_without_a_find_as_none(
    backend: Backend, prediction: dict[str, Any]
) -> None:
    claims = next(round_ for round_ in backend.rounds(1, SPANS) if round_.key.control == "claims")
    assert json.loads(claims.votes["red"] or "") == [[(1 << 24), (1 << 24) + 14, "Claim"]]
    assert claims.votes["blue"] is None


def test_arms_earn_their_overlap_with_the_vote_and_then_with_the_human(
    backend: Backend, prediction: dict[str, Any]
) -> None:
    assert backend.learnt("ner", SPANS) == {
        "blue": (1, pytest.approx(0.5)),
        "green": (1, pytest.approx(0.8)),
        "red": (1, 1.0),
    }
    annotation = Annotation(number=1, task=1, mood=None)
    hook = annotated(annotation, SPANS)
    hook["annotation"]["result"] = [
        region | {"origin": "prediction"} for region in prediction["result"] if region["from_name"] != "ner"
    ] + regions(prediction, "ner")[:2]
    backend.hook(hook)
    assert backend.learnt("ner", SPANS) == {
        "blue": (1, 0.0),
        "green": (1, 1.0),
        "red": (1, pytest.approx(0.8)),
    }


PICTURE = Project(
    label_config="""<View>
  <Image name="photo" value="$photo"/><Text name="caption" value="$caption"/>
  <Choices name="animal" toName="photo"><Choice value="Cat"/><Choice value="Dog"/></Choices>
  <Rating name="sharpness" toName="photo"/>
  <Taxonomy name="place" toName="photo" maxUsages="1">
    <Choice value="Indoors"><Choice value="Kitchen"/></Choice><Choice value="Outdoors"/>
  </Taxonomy>
</View>"""
)
SEEN = {"animal": "Cat", "sharpness": 4, "place": "Outdoors"}
URL = "https://pictures.example/cats/4711.jpg"


def picture(number: int, photo: str, **data: str) -> dict[str, Any]:
    return task(number, project=PICTURE, data={"photo": photo, "caption": "", **data})


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    folder = tmp_path_factory.mktemp("images")
    with Backend(folder, lambda _: says(**SEEN), entries={"vision": True}) as backend:
        yield backend


def test_an_image_is_passed_on_as_a_part_of_the_message(seeing: Backend) -> None:
    [prediction] = seeing.predict(picture(1, URL, caption="My cat."), project=PICTURE)
    assert [region["value"] for region in prediction["result"]] == [
        {"choices": ["Cat"]},
        {"rating": 4},
        {"taxonomy": [["Outdoors"]]},
    ]
    interface = LabelInterface(PICTURE.label_config)
    assert interface.validate_prediction(prediction, return_errors=True) == []
    text, image = seeing.server.requests[0].body["messages"][1]["content"]
    assert image == {"type": "image_url", "image_url": {"url": URL}}
    assert "My cat." in text["text"]
    assert "4711" not in text["text"]


def test_the_same_image_is_paid_for_once(seeing: Backend) -> None:
    before = len(seeing.server.requests)
    seeing.predict(picture(2, f"{URL}?2"), picture(3, f"{URL}?3"), picture(4, f"{URL}?3"), project=PICTURE)
    assert len(seeing.server.requests) == before + 2 * 3


def test_a_picture_in_the_task_itself_is_passed_on(seeing: Backend) -> None:
    data = "data:image/png;base64," + base64.b64encode(b"not much of a picture").decode()
    [prediction] = seeing.predict(picture(5, data), project=PICTURE)
    assert prediction["result"]
    assert seeing.server.requests[-1].body["messages"][1]["content"][1]["image_url"]["url"] == data


@pytest.mark.parametrize(
    "photo", ["/data/upload/1/cat.jpg", "s3://pictures/cat.jpg", "cat.jpg", "file:///etc/x"]
)
def test_an_image_that_no_model_could_see_costs_nothing(seeing: Backend, photo: str) -> None:
    before = len(seeing.server.requests)
    assert seeing.predict(picture(6, photo), project=PICTURE) == [[]]
    assert len(seeing.server.requests) == before


def test_models_that_cannot_see_are_not_asked(tmp_path: Path) -> None:
    blind = Project(label_config=PICTURE.label_config.replace('toName="photo"', 'toName="caption"', 1))
    with Backend(tmp_path, lambda _: says(**SEEN)) as backend:
        [result] = backend.predict(picture(1, URL, caption="My cat."), project=blind)
        assert [region["from_name"] for region in result["result"]] == ["animal"]
        assert all(isinstance(r.body["messages"][1]["content"], str) for r in backend.server.requests)
        assert backend.server.count() == 3


def test_a_single_model_without_vision_is_not_asked_nor_replaced(tmp_path: Path) -> None:
    policy = {"name": "single", "model": "green"}
    with Backend(tmp_path, lambda _: says(**SEEN), policy=policy) as backend:
        backend.runtime.pool._callers["red"].model.__dict__["sees"] = True
        assert backend.predict(picture(1, URL), project=PICTURE) == [[]]
        assert backend.server.count() == 0


def test_a_web_image_that_no_model_opens_itself_costs_nothing(tmp_path: Path) -> None:
    ollama = {"model": "ollama/llava", "vision": True}
    one = {"models": ("red",), "entries": ollama, "policy": {"name": "majority"}}
    with Backend(tmp_path, lambda _: says(**SEEN), **one) as backend:
        assert backend.predict(picture(1, URL), project=PICTURE) == [[]]
        (failure,) = backend.client.get("/failed?project=7").get_json()["tasks"]
        assert (failure["code"], backend.server.count()) == ("image_unavailable", 0)


def test_only_the_models_that_see_are_asked_about_an_image(tmp_path: Path) -> None:
    with Backend(tmp_path, lambda _: says(**SEEN)) as backend:
        backend.runtime.pool._callers["red"].model.__dict__["sees"] = True
        [result] = backend.predict(picture(1, URL), project=PICTURE)
        assert result["result"]
        assert {request.model for request in backend.server.requests} == {"red"}


def test_the_ledger_does_not_keep_the_picture(seeing: Backend) -> None:
    with seeing.ledger.read() as connection:
        stored = [tuple(row) for row in connection.execute(tables.answers.select())]
    assert stored
    assert not any("pictures.example" in str(row) or "base64" in str(row) for row in stored)


def test_each_models_own_prediction_has_its_regions_with_their_classes(tmp_path: Path) -> None:
    with Backend(tmp_path, script, show_votes=True) as backend:
        [predictions] = backend.predict(task(1, project=SPANS, data=DATA), project=SPANS)
    own = {prediction["model_version"]: prediction for prediction in predictions}
    ids = {region["id"]: region["value"]["labels"] for region in regions(own["camvo/red"], "ner")}
    assert [
        (ids[region["id"]], region["value"]["choices"]) for region in regions(own["camvo/red"], "role")
    ] == [
        (["PER"], ["guest"]),
        (["PER"], ["host"]),
    ]
    assert regions(own["camvo/blue"], "role") == []
