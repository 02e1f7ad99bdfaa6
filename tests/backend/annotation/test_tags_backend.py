"""A config with every kind of vote in the real app: predictions, rewards and human corrections."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import Annotation, Project, annotated, annotations_deleted, task
from label_studio_sdk.label_interface.interface import LabelInterface
from whole_backend import Backend, says

from backend.testing import Reply

CONFIG = """<View>
  <Text name="text" value="$text"/><Text name="other" value="$other"/><List name="hits" value="$hits"/>
  <Choices name="topics" toName="text" choice="multiple">
    <Choice value="Food"/><Choice value="Travel"/><Choice value="Work"/><Choice value="Money"/>
  </Choices>
  <Taxonomy name="place" toName="text" maxUsages="1">
    <Choice value="Indoors"><Choice value="Kitchen"/><Choice value="Attic"/></Choice>
    <Choice value="Outdoors"/>
  </Taxonomy>
  <Rating name="stars" toName="text" maxRating="5"/>
  <Number name="people" toName="text" min="0"/>
  <DateTime name="day" toName="text" only="date" format="%d/%m/%Y"/>
  <TextArea name="who" toName="text" camvo_instructions="Who wrote it?"/>
  <Pairwise name="better" toName="text,other"/>
  <Ranker name="order" toName="hits"/>
</View>"""
PROJECT = Project(label_config=CONFIG)
DATA = {
    "text": "We cooked for forty guests.",
    "other": "A quiet day.",
    "hits": [{"id": 1, "title": "one"}, {"id": 2, "title": "two"}, {"id": 3, "title": "three"}],
}
RED = {
    "topics": ["Food", "Work"],
    "place": "Indoors / Kitchen",
    "stars": 4,
    "people": 40,
    "day": "2024-05-01",
    "who": "Ada Lovelace",
    "better": "left",
    "order": ["2", "1", "3"],
}
GREEN = RED | {"topics": ["Food"], "stars": 5, "people": 41, "who": "ada lovelace.", "order": ["2", "3", "1"]}
BLUE = {
    "topics": ["Travel", "Work"],
    "place": "Outdoors",
    "stars": 1,
    "people": 10,
    "day": "2023-05-01",
    "who": "Ada Byron",
    "better": "right",
    "order": ["1", "2", "3"],
}
ANSWERS = {"red": RED, "green": GREEN, "blue": BLUE}

DECIDED = {
    "topics": {"choices": ["Food", "Work"]},
    "place": {"taxonomy": [["Indoors", "Kitchen"]]},
    "stars": {"rating": 4},
    "people": {"number": 40},
    "day": {"datetime": "01/05/2024"},
    "who": {"text": ["Ada Lovelace"]},
    "better": {"selected": "left"},
    "order": {"ranker": {"order": ["2", "1", "3"]}},
}
"""In the first round all votes have the same weight."""

TAUGHT = {
    "topics": {"red": 1.0, "green": 0.75, "blue": 0.5},
    "place": {"red": 1.0, "green": 1.0, "blue": 0.0},
    "stars": {"red": 1.0, "green": 0.75, "blue": 0.25},
    "people": {"red": 1.0, "green": 0.75, "blue": 0.0},
    "day": {"red": 1.0, "green": 1.0, "blue": 0.0},
    "who": {"red": 1.0, "green": 1.0, "blue": 0.5},
    "better": {"red": 1.0, "green": 1.0, "blue": 0.0},
    "order": {"red": 1.0, "green": 2 / 3, "blue": 2 / 3},
}
HUMAN: list[tuple[str, str, str, dict[str, Any], dict[str, float]]] = [
    ("topics", "text", "choices", {"choices": ["Travel"]}, {"red": 0.25, "green": 0.5, "blue": 0.75}),
    ("place", "text", "taxonomy", {"taxonomy": [["Outdoors"]]}, {"red": 0.0, "green": 0.0, "blue": 1.0}),
    ("stars", "text", "rating", {"rating": 2}, {"red": 0.5, "green": 0.25, "blue": 0.75}),
    ("people", "text", "number", {"number": 10}, {"red": 0.0, "green": 0.0, "blue": 1.0}),
    ("day", "text", "datetime", {"datetime": "01/05/2023"}, {"red": 0.0, "green": 0.0, "blue": 1.0}),
    ("who", "text", "textarea", {"text": ["Lord Byron"]}, {"red": 0.0, "green": 0.0, "blue": 0.5}),
    ("better", "better", "pairwise", {"selected": "right"}, {"red": 0.0, "green": 0.0, "blue": 1.0}),
    (
        "order",
        "hits",
        "ranker",
        {"ranker": {"order": ["1", "3", "2"]}},
        {"red": 1 / 3, "green": 0.0, "blue": 2 / 3},
    ),
]
controls = pytest.mark.parametrize(("control", "to_name", "kind", "value", "expected"), HUMAN)


def script(body: dict[str, Any]) -> Reply:
    return says(**ANSWERS[body["model"]])


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A backend in which task 1 has a round."""
    with Backend(tmp_path_factory.mktemp("tags"), script) as backend:
        backend.predict(task(1, data=DATA), project=PROJECT)
        yield backend


def rewards(backend: Backend, control: str) -> dict[str, float]:
    learnt = backend.learnt(control, PROJECT)
    assert all(count == 1 for count, _ in learnt.values())
    return {arm: total for arm, (_, total) in learnt.items()}


def test_every_question_is_decided_in_one_query(backend: Backend) -> None:
    [prediction] = backend.predict(task(1, data=DATA), project=PROJECT)
    assert {item["from_name"]: item["value"] for item in prediction["result"]} == DECIDED
    assert backend.server.count() == len(ANSWERS)
    assert LabelInterface(CONFIG).validate_prediction(prediction, return_errors=True) == []


@pytest.mark.parametrize("control", TAUGHT)
def test_the_vote_rewards_each_model_by_how_close_it_came(backend: Backend, control: str) -> None:
    assert rewards(backend, control) == pytest.approx(TAUGHT[control])


@controls
def test_a_human_answer_replaces_the_vote_in_the_rewards_until_it_is_deleted(  # noqa: PLR0917
    backend: Backend, control: str, to_name: str, kind: str, value: dict[str, Any], expected: dict[str, float]
) -> None:
    number = 100 + list(TAUGHT).index(control)
    item = {"from_name": control, "to_name": to_name, "type": kind, "value": value}
    backend.hook(annotated(Annotation(number=number, task=1, mood=None, result=[item]), PROJECT))
    assert rewards(backend, control) == pytest.approx(expected)
    backend.hook(annotations_deleted(number, project=PROJECT))
    assert rewards(backend, control) == pytest.approx(TAUGHT[control])


def test_two_people_are_counted_by_the_rule_of_the_question(backend: Backend) -> None:
    for number, stars in ((201, 1), (202, 3)):
        item = {"from_name": "stars", "to_name": "text", "type": "rating", "value": {"rating": stars}}
        backend.hook(annotated(Annotation(number=number, task=1, mood=None, result=[item]), PROJECT))
    assert rewards(backend, "stars") == pytest.approx({"red": 0.5, "green": 0.25, "blue": 0.75})
    backend.hook(annotations_deleted(201, 202, project=PROJECT))


def test_a_submitted_form_without_topics_says_that_no_topic_fits(backend: Backend) -> None:
    backend.hook(annotated(Annotation(number=203, task=1, mood=None), PROJECT))
    assert rewards(backend, "topics") == pytest.approx({"red": 0.5, "green": 0.75, "blue": 0.5})
    backend.hook(annotations_deleted(203, project=PROJECT))


def test_a_task_with_nothing_to_rank_is_answered_on_its_other_questions(tmp_path: Path) -> None:
    with Backend(tmp_path, script) as backend:
        [prediction] = backend.predict(task(1, data=DATA | {"hits": []}), project=PROJECT)
    assert {item["from_name"] for item in prediction["result"]} == DECIDED.keys() - {"order"}
