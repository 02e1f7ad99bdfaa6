from __future__ import annotations

import json
from importlib.resources import files

import pytest
from label_studio_sdk.label_interface.interface import LabelInterface

from backend.questions import parse_label_config
from backend.questions.prompts.answers import parse_answer
from backend.questions.prompts.messages import prompt_messages, texts_of

NAMES = [
    "sentiment",
    "topic",
    "multi_question",
    "multiple_choice",
    "mmlu",
    "imdb",
    "ag_news",
    "review",
    "library",
    "receipt",
    "preference",
    "search_results",
    "ner",
    "image",
]
ANSWERS: dict[str, dict[str, object]] = {
    "review": {"aspects": ["Quality", "Service"], "stars": 4},
    "library": {"subject": "Life sciences / Zoology"},
    "receipt": {"date": "2024-03-14", "amount": 23.5, "shop": "Blue Door Café"},
    "preference": {"better": "left"},
    "search_results": {"order": ["mdn", "blog", "archery"]},
    "ner": {
        "entities": [
            {"quote": "Marie Curie", "before": "", "label": "Person"},
            {"quote": "Sorbonne", "before": "at the", "label": "Organisation"},
        ],
        "role": [{"quote": "Marie Curie", "before": "", "label": "Acts"}],
    },
    "image": {"condition": "Used", "sharpness": 4},
}


def xml(name: str) -> str:
    return files("label_config").joinpath(f"{name}.xml").read_text("utf-8")


def sample(name: str) -> dict[str, object]:
    data: dict[str, object] = LabelInterface.get_task_from_labeling_config(xml(name))[0]
    return data


def test_every_config_that_is_shipped_is_tested() -> None:
    shipped = {path.name for path in files("label_config").iterdir() if path.name.endswith(".xml")}
    assert shipped == {f"{name}.xml" for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_label_studio_accepts_the_config(name: str) -> None:
    LabelInterface(xml(name)).validate()


@pytest.mark.parametrize("name", NAMES)
def test_every_control_can_be_voted_on(name: str) -> None:
    assert parse_label_config(xml(name)).questions
    assert parse_label_config(xml(name)).skipped == ()


@pytest.mark.parametrize("name", NAMES)
def test_every_label_has_a_hint_and_every_question_instructions(name: str) -> None:
    for question in parse_label_config(xml(name)).questions:
        assert question.instructions
        assert all(hint for _, hint in question.control.answer_format.labels)


@pytest.mark.parametrize("name", NAMES)
def test_the_sample_task_holds_just_the_fields_that_are_read(name: str) -> None:
    keys = {field.key for question in parse_label_config(xml(name)).questions for field in question.fields}
    assert keys == set(sample(name))


@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_can_be_made_from_the_sample_task(name: str) -> None:
    questions = parse_label_config(xml(name)).questions
    system, user = prompt_messages([question.about(sample(name)) for question in questions], None)
    shown = [text for question in questions for text in question.about(sample(name)).texts.values()]
    assert all(text in "\n".join(texts_of([user])) for text in shown)
    assert all(f"\nQuestion {json.dumps(question.name)}\n" in system["content"] for question in questions)


@pytest.mark.parametrize("name", NAMES)
def test_label_studio_accepts_a_prediction_of_any_label(name: str) -> None:
    interface = LabelInterface(xml(name))
    for question in parse_label_config(xml(name)).questions:
        asked = question.about(sample(name))
        for label, _ in question.control.answer_format.labels:
            quote = {"quote": next(iter(asked.texts.values())), "before": "", "label": label}
            vote = (
                asked.vote_from_answer(label)
                or asked.vote_from_answer([label])
                or asked.vote_from_answer([quote])
            )
            prediction = {"result": asked.result_items(str(vote)), "score": 0.5}
            assert interface.validate_prediction(prediction, return_errors=True) == []


@pytest.mark.parametrize("name", ANSWERS)
def test_label_studio_accepts_a_prediction_of_any_other_answer(name: str) -> None:
    asked = [question.about(sample(name)) for question in parse_label_config(xml(name)).questions]
    votes = parse_answer(json.dumps(ANSWERS[name]), asked)
    assert votes.keys() == {question.name for question in asked}
    result = [item for question in asked for item in question.result_items(votes[question.name])]
    prediction = {"result": result, "score": 0.5}
    assert LabelInterface(xml(name)).validate_prediction(prediction, return_errors=True) == []


def test_the_options_of_a_multiple_choice_question_are_read_after_it() -> None:
    (question,) = parse_label_config(xml("multiple_choice")).questions
    assert [field.key for field in question.fields] == [
        "question",
        *(f"option_{letter}" for letter in "abcd"),
    ]
