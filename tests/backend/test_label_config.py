from __future__ import annotations

from importlib.resources import files

import pytest
from label_studio_sdk.label_interface.interface import LabelInterface

from backend import prompts
from backend.labels import parse

NAMES = ["sentiment", "topic", "multi_question", "multiple_choice", "mmlu", "imdb", "ag_news"]


def xml(name: str) -> str:
    return files("label_config").joinpath(f"{name}.xml").read_text("utf-8")


def sample(name: str) -> dict[str, str]:
    data: dict[str, str] = LabelInterface.get_task_from_labeling_config(xml(name))[0]
    return data


def test_every_config_that_is_shipped_is_tested() -> None:
    shipped = {path.name for path in files("label_config").iterdir() if path.name.endswith(".xml")}
    assert shipped == {f"{name}.xml" for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_label_studio_accepts_the_config(name: str) -> None:
    LabelInterface(xml(name)).validate()


@pytest.mark.parametrize("name", NAMES)
def test_every_control_can_be_voted_on(name: str) -> None:
    assert parse(xml(name)).questions
    assert parse(xml(name)).skipped == ()


@pytest.mark.parametrize("name", NAMES)
def test_every_label_has_a_hint_and_every_question_instructions(name: str) -> None:
    for question in parse(xml(name)).questions:
        assert question.instructions
        assert all(hint for _, hint in question.control.request.labels)


@pytest.mark.parametrize("name", NAMES)
def test_the_sample_task_holds_just_the_fields_that_are_read(name: str) -> None:
    keys = {field.key for question in parse(xml(name)).questions for field in question.fields}
    assert keys == set(sample(name))


@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_can_be_made_from_the_sample_task(name: str) -> None:
    questions = parse(xml(name)).questions
    prompt = prompts.read(prompts.messages([question.about(sample(name)) for question in questions], None))
    assert all(text in prompt.text for text in sample(name).values())
    assert [asked.name for asked in prompt.questions] == [question.name for question in questions]


@pytest.mark.parametrize("name", NAMES)
def test_label_studio_accepts_a_prediction_of_any_label(name: str) -> None:
    interface = LabelInterface(xml(name))
    for question in parse(xml(name)).questions:
        for label in question.about(sample(name)).options:
            prediction = {"result": question.about(sample(name)).regions(label), "score": 0.5}
            assert interface.validate_prediction(prediction, return_errors=True) == []


def test_the_options_of_a_multiple_choice_question_are_read_after_it() -> None:
    (question,) = parse(xml("multiple_choice")).questions
    assert [field.key for field in question.fields] == [
        "question",
        *(f"option_{letter}" for letter in "abcd"),
    ]
