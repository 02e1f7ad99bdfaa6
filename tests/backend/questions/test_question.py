from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from label_studio_sdk.label_interface.interface import LabelInterface

from backend.errors import EmptyTextError, MissingFieldError
from backend.questions import ConfigQuestion, parse_label_config
from backend.questions.controls import OneOf
from backend.questions.xml import Label
from camvo.errors import InvalidParameterError

XML = """<View>
  <Text name="title" value="$title"/>
  <Text name="text" value="$text"/>
  <Choices name="mood" toName="text">
    <Choice value="Very good" alias="good" hint="praise"/>
    <Choice value="Bad"/>
  </Choices>
</View>"""


@pytest.fixture
def question() -> ConfigQuestion:
    return parse_label_config(XML).questions[0]


def regions(question: ConfigQuestion, vote: str) -> list[dict[str, object]]:
    return question.about({"title": "T", "text": "words"}).result_items(vote)


def item(choices: object, **changes: object) -> dict[str, object]:
    return {
        "from_name": "mood",
        "to_name": "text",
        "type": "choices",
        "value": {"choices": choices},
    } | changes


def test_the_texts_come_in_the_order_of_the_page(question: ConfigQuestion) -> None:
    texts = question.texts({"title": "T", "text": "words", "annotations": "secret"})
    assert list(texts.items()) == [("title", "T"), ("text", "words")]


def test_a_blank_title_above_the_text_is_no_error(question: ConfigQuestion) -> None:
    assert question.texts({"title": "", "text": "words"}) == {"title": "", "text": "words"}


def test_a_missing_key_is_named(question: ConfigQuestion) -> None:
    with pytest.raises(MissingFieldError) as caught:
        question.texts({"text": "words"})
    assert caught.value.where == "data.title"


@pytest.mark.parametrize("blank", ["", " \n\t", "\u00a0", None, "\x00"])
def test_a_blank_text_is_an_error(question: ConfigQuestion, blank: str | None) -> None:
    with pytest.raises(EmptyTextError) as caught:
        question.texts({"title": "T", "text": blank})
    assert caught.value.where == "data.text"


def test_a_blank_second_field_is_none(question: ConfigQuestion) -> None:
    assert question.texts({"title": None, "text": "words"}) == {"text": "words", "title": ""}


@pytest.mark.parametrize("label", ["good", "Bad"])
def test_label_studio_accepts_a_region(question: ConfigQuestion, label: str) -> None:
    prediction = {"result": regions(question, label), "score": 0.5}
    assert LabelInterface(XML).validate_prediction(prediction, return_errors=True) == []


@pytest.mark.parametrize("label", ["Very good", "bad", "", "Worse"])
def test_there_is_no_region_for_an_unknown_label(question: ConfigQuestion, label: str) -> None:
    with pytest.raises(InvalidParameterError):
        regions(question, label)


@pytest.mark.parametrize("label", ["good", "Bad"])
def test_a_region_is_read_back_as_its_label(question: ConfigQuestion, label: str) -> None:
    assert question.vote_from_annotation(regions(question, label)) == label


@pytest.mark.parametrize(
    "result",
    [
        [],
        [item([])],
        [item(["good", "Bad"])],
        [item(["good", "Gone"])],
        [item(["Very good"])],
        [item([["good"]])],
        [item("good")],
        [item(None)],
        [item(["good"]), item(["Bad"])],
        [item(["good"]), item(["good"])],
        [item(["good"], from_name="other")],
        [item(["good"], type="labels")],
        [item(["good"], value=None)],
        ["good", None, 3],
    ],
)
def test_a_result_without_exactly_one_known_label_is_no_answer(
    question: ConfigQuestion, result: list[object]
) -> None:
    assert question.vote_from_annotation(result) is None


def test_other_controls_of_an_annotation_are_ignored(question: ConfigQuestion) -> None:
    assert (
        question.vote_from_annotation([item(["x"], from_name="topic"), item(["Bad"]), {"type": "relation"}])
        == "Bad"
    )


def test_the_digest_outlives_the_process(question: ConfigQuestion) -> None:
    assert question.digest == "aba750a4f09a7cbeb21356a8cbf76820dab5d0fcf7134e2329236ef182e520cb"


@pytest.mark.parametrize(
    "change",
    [
        {"control": OneOf((Label("good", "Very good", "praise"), Label("Bad", "Awful")), "choices")},
        {"control": OneOf((Label("good", "Very good", "applause"), Label("Bad", "Bad")), "choices")},
        {"control": OneOf((Label("fine", "Very good", "praise"), Label("Bad", "Bad")), "choices")},
        {"control": OneOf((Label("Bad", "Bad"), Label("good", "Very good", "praise")), "choices")},
        {"instructions": "Judge."},
        {"name": "feeling"},
    ],
)
def test_the_digest_changes_with_what_a_model_sees(question: ConfigQuestion, change: dict[str, Any]) -> None:
    assert dataclasses.replace(question, **change).digest != question.digest


def test_the_digest_changes_with_the_fields(question: ConfigQuestion) -> None:
    fewer = dataclasses.replace(question, fields=question.fields[:1])
    other_tag = dataclasses.replace(
        question, fields=(dataclasses.replace(question.fields[0], tag="HyperText"),)
    )
    assert len({question.digest, fewer.digest, other_tag.digest}) == 3


def test_the_digest_ignores_how_the_objects_are_called(question: ConfigQuestion) -> None:
    renamed = dataclasses.replace(question, to_name="words")
    assert renamed.digest == question.digest


def by_language(attribute: str = 'camvo_context="language"') -> ConfigQuestion:
    return parse_label_config(XML.replace('toName="text"', f'toName="text" {attribute}')).questions[0]


def test_camvo_context_names_the_key_of_the_category() -> None:
    data = {"title": "T", "text": "words", "language": " de "}
    assert by_language().about(data).category == "de"


def test_models_do_not_see_the_category() -> None:
    data = {"title": "T", "text": "words", "language": "de"}
    assert list(by_language().about(data).texts.values()) == ["T", "words"]


@pytest.mark.parametrize("language", ["", " ", None])
def test_a_blank_category_is_none(language: str | None) -> None:
    assert not by_language().about({"title": "T", "text": "words", "language": language}).category


def test_a_task_without_the_key_of_the_category_is_refused_by_its_name() -> None:
    with pytest.raises(MissingFieldError, match=r"data\.language"):
        by_language().about({"title": "T", "text": "words"})


def test_another_category_key_is_another_question(question: ConfigQuestion) -> None:
    digests = {question.digest, by_language().digest, by_language('camvo_context="topic"').digest}
    assert len(digests) == 3
    assert by_language('camvo_context=" "').digest == question.digest


def test_the_label_is_at_the_front_of_a_predictions_json(question: ConfigQuestion) -> None:
    assert json.dumps(regions(question, "good")).startswith('[{"value": {"choices": ["good"]}')
