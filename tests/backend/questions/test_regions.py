from __future__ import annotations

from typing import Any

import pytest

from backend.questions import TaskQuestion, parse_label_config
from backend.questions.spans import RegionChoices

CLASSES = '<Choice value="guest"/><Choice value="host"/>'
TEXT = "Ann stayed with Bob in Rome."


def xml(
    attributes: str = "", *, shown: str = '<Text name="text" value="$text"/>', marking: str | None = None
) -> str:
    ner = (
        '<Labels name="ner" toName="text"><Label value="Person" alias="PER"/><Label value="Place"/></Labels>'
    )
    choices = f'<Choices name="role" toName="text" perRegion="true" {attributes}>{CLASSES}</Choices>'
    return f"<View>{shown}{ner if marking is None else marking}{choices}</View>"


def asked(attributes: str = "") -> TaskQuestion:
    return parse_label_config(xml(attributes)).questions[1].about({"text": TEXT})


def given_to(question: TaskQuestion, regions: list[dict[str, Any]], vote: str) -> list[tuple[str, list[str]]]:
    control = question.config.control
    assert isinstance(control, RegionChoices)
    return [
        (item["id"], item["value"]["choices"])
        for item in control.attach_to_regions(regions, question.result_items(vote))
    ]


def region(name: str, start: int, end: int, label: str = "PER") -> dict[str, Any]:
    return {"id": name, "type": "labels", "value": {"start": start, "end": end, "labels": [label]}}


def test_a_class_goes_to_the_region_that_it_lies_on() -> None:
    regions = [region("ann", 0, 3), region("bob", 16, 19)]
    assert given_to(asked(), regions, '[[16,19,"host"]]') == [("bob", ["host"])]


def test_boundaries_that_are_a_little_off_do_not_matter() -> None:
    assert given_to(asked(), [region("bob", 16, 19)], '[[15,19,"host"]]') == [("bob", ["host"])]
    assert given_to(asked(), [region("bob", 16, 19)], '[[11,19,"host"]]') == []


def test_a_region_gets_one_class_unless_it_may_have_several() -> None:
    regions, vote = [region("bob", 16, 19)], '[[16,19,"guest"],[16,19,"host"]]'
    assert given_to(asked(), regions, vote) == [("bob", ["guest"])]
    assert given_to(asked('choice="multiple"'), regions, vote) == [("bob", ["guest", "host"])]


@pytest.mark.parametrize("label", ["Person", "PER"])
def test_only_regions_with_the_label_of_the_condition_get_a_class(label: str) -> None:
    question = asked(f'whenTagName="ner" whenLabelValue="{label}"')
    regions = [region("ann", 0, 3), region("rome", 23, 27, "Place")]
    assert given_to(question, regions, '[[0,3,"guest"],[23,27,"host"]]') == [("ann", ["guest"])]


def test_a_person_s_classes_are_read_as_spans() -> None:
    result = [
        {
            "id": "a",
            "from_name": "role",
            "type": "choices",
            "value": {"start": 0, "end": 3, "choices": ["host"]},
        },
        {"id": "a", "from_name": "ner", "type": "labels", "value": {"start": 0, "end": 3, "labels": ["PER"]}},
    ]
    assert asked().config.vote_from_annotation(result) == '[[0,3,"host"]]'


def test_regions_that_nobody_gave_a_class_say_nothing() -> None:
    assert asked().config.vote_from_annotation([]) is None


def test_models_are_told_whose_regions_they_classify() -> None:
    rule = asked().config.control.answer_format.rule
    assert '"text"' in rule
    assert '"ner"' in rule


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (xml(marking=""), "needs Labels on the same text"),
        (xml('whenTagName="other"'), "needs Labels on the same text"),
        (xml(marking='<Labels name="ner" toName="text" value="$labels"/>'), "needs Labels on the same text"),
        (xml('allowNested="true"'), "nested choices"),
        (xml('camvo_fields="title"'), "camvo_fields"),
        (xml(shown='<Image name="text" value="$text"/>', marking=""), "perRegion on Image"),
    ],
)
def test_regions_that_cannot_get_a_class_are_skipped_with_the_reason(config: str, reason: str) -> None:
    skipped = {control.control: control.reason for control in parse_label_config(config).skipped}
    assert reason in skipped["role"]
